"""The table of a comparison, from numbers that are given."""

import math

import numpy as np
import pytest

import bbalpha as bb

NAN = math.nan
REFERENCE = bb.ComparisonRow(
    "exact", NAN, np.array([1.0, -2.0]), np.array([0.5, 0.2]), -74.594, -0.8231, 0.01, 0.0, True,
    "exact, because the noise is Gaussian.",
)  # fmt: skip
ROWS = (
    bb.ComparisonRow(
        "power_ep", 0.5, REFERENCE.mean + 1e-9, REFERENCE.deviation, -74.594, -0.8231, 0.5, 3.0,
        True,
    ),
    bb.ComparisonRow(
        "fixed_point", 1.0, np.array([1.1, -1.9]), np.array([1.0, 0.3]), -71.2, -0.812, 1.25, 2.0,
        False, "fixed_point did not converge.",
    ),
    bb.ComparisonRow(
        "snep", 0.0, np.full(2, NAN), np.full(2, NAN), NAN, NAN, NAN, NAN, False,
        "alpha must not be 0.",
    ),
)  # fmt: skip
FOUND = bb.Comparison(ROWS, REFERENCE)
NO_REFERENCE = bb.ComparisonRow(
    "none", NAN, np.full(2, NAN), np.full(2, NAN), NAN, NAN, 0.0, 0.0, False, "none."
)


def test_the_table_has_a_row_for_the_reference_and_each_method():
    assert (
        str(FOUND)
        == """\
method         α  mean error  deviations  log evidence  held out  seconds
exact                                           -74.59    -0.823     0.01
power_ep     0.5       5e-09        1.00        -74.59    -0.823     0.50
fixed_point    1       0.500   1.50–2.00        -71.20    -0.812     1.25
snep           0           –           –             –         –        –
Reference: exact, because the noise is Gaussian.
Mean error: the largest error of a mean, in deviations of the reference.
Deviations: the smallest and the largest, relative to the reference.
fixed_point, α = 1: fixed_point did not converge.
snep, α = 0: alpha must not be 0."""
    )


def test_without_a_reference_nothing_is_compared_with_it():
    lines = str(bb.Comparison(ROWS[:1], NO_REFERENCE)).splitlines()
    assert lines[1:] == [
        "power_ep  0.5           –           –        -74.59    -0.823     0.50",
        "Reference: none.",
    ]


def test_records_hold_the_numbers_of_the_table():
    record = FOUND.records()[1]
    assert record["largest_mean_error"] == pytest.approx(0.5)
    assert record["smallest_deviation_ratio"] == pytest.approx(1.5)
    assert record["largest_deviation_ratio"] == pytest.approx(2.0)
    assert (record["method"], record["alpha"], record["compiling"]) == ("fixed_point", 1.0, 2.0)


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_a_picture_is_written(tmp_path, suffix, start):
    path = tmp_path / f"found.{suffix}"
    FOUND.plot(path)
    assert path.read_bytes().startswith(start)


def test_a_picture_of_another_kind_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"path must end in \.png, \.pdf or \.svg; got '.*\.gif'"):
        FOUND.plot(tmp_path / "found.gif")
