"""Facts about tails: ordinary numbers stay, far ones are drawn in, and the map can be undone."""

import numpy as np
import pytest

from bbalpha.tables.tails import HEAVY_KNEE, ORDINARY_KNEE, UNCHANGED, Tails

RNG = np.random.default_rng(0)
COLUMNS = {
    "normal": RNG.normal(5, 2, 500),
    "uniform": RNG.uniform(0, 1, 500),
    "lognormal": np.exp(RNG.normal(0, 1.5, 500)),
    "cauchy": RNG.standard_cauchy(500),
    "counts": RNG.poisson(0.1, 500).astype(float),
    "few": np.array([1.0, 5.0, 2.0]),
    "two": np.array([0.0, 1.0] + [0.0] * 98),
    "equal": np.full(5, 3.0),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_the_map_increases_and_can_be_undone(name):
    values = COLUMNS[name]
    tails = Tails.learn(values)
    spread = max(np.ptp(values), 1.0)
    points = np.median(values) + spread * np.linspace(-3, 3, 301)
    mapped = tails.apply(points)
    assert (np.diff(mapped) > 0).all()
    np.testing.assert_allclose(tails.inverse(mapped), points, rtol=1e-6, atol=1e-9 * spread)


@pytest.mark.parametrize("values", [[1.7e308, -1.7e308, 0.0], [5e-324, 0.0, 1e-323]])
def test_numbers_at_the_ends_of_the_range_stay_as_they_are(values):
    assert Tails.learn(np.array(values)) == UNCHANGED


def test_ordinary_numbers_stay_as_they_are():
    for name in ("uniform", "two", "few"):
        np.testing.assert_array_equal(
            Tails.learn(COLUMNS[name]).apply(COLUMNS[name]), COLUMNS[name]
        )
    tails = Tails.learn(COLUMNS["normal"])
    assert (tails.knee, tails.log_from) == (ORDINARY_KNEE, None)
    inside = np.abs(COLUMNS["normal"] - 5) < 6
    np.testing.assert_array_equal(tails.apply(COLUMNS["normal"])[inside], COLUMNS["normal"][inside])


def test_positive_skewed_numbers_become_logarithms_and_heavy_tails_are_shortened():
    values = COLUMNS["lognormal"]
    tails = Tails.learn(values)
    assert tails.log_from == values.min() / 2
    np.testing.assert_allclose(tails.apply(np.array([2.0])), np.log(2.0))
    assert np.isfinite(tails.apply(np.array([0.0, -5.0]))).all()
    cauchy = Tails.learn(COLUMNS["cauchy"])
    assert cauchy.knee == HEAVY_KNEE
    mapped = cauchy.apply(COLUMNS["cauchy"])
    assert np.abs(mapped / mapped.std()).max() < 6
    assert np.abs(COLUMNS["cauchy"]).max() > 100


def test_the_map_is_smooth_at_the_knee():
    tails, step = Tails(center=2.0, width=3.0, knee=4.0), 1e-6
    around = 2 + 12 * np.array([1 - step, 1, 1 + step])
    slopes = np.diff(tails.apply(around)) / np.diff(around)
    np.testing.assert_allclose(slopes, 1.0, atol=1e-5)


def test_one_recording_error_changes_no_choice_and_is_drawn_in():
    for name in ("normal", "uniform", "lognormal"):
        clean, spoiled = COLUMNS[name], COLUMNS[name].copy()
        spoiled[0] = 1e9
        one, other = Tails.learn(clean), Tails.learn(spoiled)
        assert (one.knee, one.log_from is None) == (other.knee, other.log_from is None)
        assert other.apply(np.array([1e9]))[0] < 200
        assert other.width == pytest.approx(one.width, rel=0.05)


def test_the_largest_numbers_are_left_alone():
    values = np.tile([-1.7e308, 1.7e308, 1.2e308], 10)
    assert Tails.learn(values) == Tails()
