"""Hashes of what determines a fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bbalpha.runtime.fingerprints import cores, digest, processor

DIFFERENT = [
    np.zeros(2, np.float32),
    np.zeros(2, np.float64),
    np.zeros((2, 1), np.float32),
    np.array([0.0, 1e-45], np.float32),
    None,
    "zeros",
    jax.random.key(0),
    jax.random.key(1),
]


def test_a_hash_tells_values_shapes_types_and_keys_apart():
    hashes = [digest(value) for value in DIFFERENT]
    assert len(set(hashes)) == len(hashes)
    assert digest(jnp.zeros(2)) == digest(np.zeros(2, np.float32))


@pytest.mark.parametrize(("nproc", "number"), [("3", 3), ("64", 64)])
def test_cores_are_those_that_xla_uses(monkeypatch, nproc, number):
    monkeypatch.setenv("NPROC", nproc)
    assert cores() == number
    monkeypatch.delenv("NPROC")
    assert cores() >= 1


def test_a_processor_is_the_same_twice():
    assert processor() == processor() != ""
