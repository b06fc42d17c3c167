"""How long an estimator trains."""

import pytest

import bbalpha as bb
from bbalpha.interfaces.training import epochs_of


@pytest.mark.parametrize(
    ("num_rows", "num_steps"),
    [(20, 5000), (320, 5000), (1600, 5000), (2400, 7500), (3200, 10_000), (32_000, 10_000)],
)
def test_a_hundred_epochs_are_taken_within_five_and_ten_thousand_steps(num_rows, num_steps):
    num_batches = -(-num_rows // 32)
    assert epochs_of(bb.BBAlphaRegressor(), num_rows) == num_steps / num_batches


def test_a_given_number_of_epochs_and_a_constant_rate_come_first():
    assert epochs_of(bb.BBAlphaRegressor(max_epochs=7), 320) == 7
    assert epochs_of(bb.BBAlphaRegressor(learning_rate=1e-3), 320) is None
