"""Facts about targets that look like recording errors."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import bbalpha as bb
from bbalpha.interfaces.wild import has_wild_values

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("targets", "is_wild"),
    [
        (RANDOM.normal(size=100_000), False),
        (np.exp(RANDOM.normal(size=1000)), False),
        (np.append(RANDOM.normal(size=99), 100.0), True),
        (np.append(RANDOM.normal(size=99), -1e308), True),
        (np.append(np.zeros(99), 1.0), False),  # no scale to compare with
    ],
)
def test_only_values_far_from_all_others_are_wild(targets, is_wild):
    assert has_wild_values(targets[:, None]) is is_wild
    assert has_wild_values(np.stack([RANDOM.normal(size=len(targets)), targets], 1)) is is_wild


def test_auto_takes_students_t_and_no_row_costs_more_than_fifty_nats(table, tmp_path):
    numbers = table.numbers.copy()
    numbers[5] *= 1000  # a comma that was lost
    model = bb.BBAlphaRegressor((), max_epochs=300, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(table.inputs, numbers)
    assert model.likelihood_ == "student_t"
    assert model.score_samples(table.inputs, numbers).min() > -50
    model.save(tmp_path / "model.safetensors")
    assert bb.BBAlphaRegressor.load(tmp_path / "model.safetensors").likelihood_ == "student_t"
