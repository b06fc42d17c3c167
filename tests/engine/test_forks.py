"""A process that was forked after jax had been used."""

import subprocess
import sys

import pytest

SCRIPT = """
import os, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
import bbalpha as bb

def fit():
    bb.fit(lambda mean, x: -(x - mean) ** 2, np.zeros(()), np.ones(3), key=key, num_epochs=1)

import jax
{before}
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
try:
    key = jax.random.key(0) if {fresh} else key
    fit()
except RuntimeError as error:
    print(error, flush=True)
    os._exit(3)
os._exit(0)
"""


def run(before, fresh):
    script = SCRIPT.format(before=before, fresh=fresh)
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


def test_a_fit_after_a_fork_is_refused_where_it_would_hang():
    found = run("key = jax.random.key(0); bb.standardize(np.arange(3.0)); fit()", fresh=False)
    assert found.returncode == 3, found.stderr
    assert found.stdout.startswith("bbalpha cannot run in a process that was forked after its ")


@pytest.mark.parametrize("before", ["", "bb.fit; "], ids=["not imported", "imported"])
def test_a_fit_after_jax_alone_was_used_before_the_fork_is_refused(before):
    used = "key = jax.random.key(0); jax.numpy.ones(3).block_until_ready()"
    found = run(before + used, fresh=False)
    assert found.returncode == 3, found.stderr
    assert "forked after its parent had used jax" in found.stdout


def test_a_fork_before_the_first_use_does_no_harm():
    found = run("", fresh=True)
    assert found.returncode == 0, found.stderr
