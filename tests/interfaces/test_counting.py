"""Which targets `likelihood="auto"` takes for counts."""

import numpy as np
import pytest
import scipy.stats as st

import bbalpha as bb
from bbalpha.interfaces import simple_models
from bbalpha.interfaces.counting import are_counts

RANDOM = np.random.default_rng(0)
VISITS = RANDOM.negative_binomial(1.5, 0.3, size=(60, 1)).astype(float)
OTHERS = {
    "a gap": np.where(np.arange(60)[:, None] == 7, 2.5, VISITS),
    "a negative number": VISITS - 1,
    "nine rows": VISITS[:9],
    "ratings": RANDOM.integers(1, 6, size=(200, 1)).astype(float),
    "ages": np.round(RANDOM.normal(40, 12, size=(200, 1))),
    "zeros and ones": (VISITS > 6).astype(float),
    "years": RANDOM.integers(1990, 2020, size=(200, 1)).astype(float),
    "large numbers": np.round(1000 * RANDOM.lognormal(5, 1, size=(200, 1))),
    "one column that is not": np.hstack([VISITS, VISITS + 0.5]),
    "all alike": np.full((60, 1), 3.0),
}


def test_counts_that_vary_more_than_a_gaussian_are_counts():
    assert are_counts(VISITS)
    assert are_counts(np.hstack([VISITS, VISITS[::-1]]))
    assert are_counts(np.tile(VISITS, (1000, 1)))


@pytest.mark.parametrize("name", OTHERS)
def test_other_targets_are_no_counts(name):
    assert not are_counts(OTHERS[name])


def test_the_rounded_gaussian_is_the_integral_of_the_constant_one():
    y = VISITS[:, 0]
    others = [np.delete(y, row) for row in range(len(y))]
    left_out = st.norm([x.mean() for x in others], [x.std(ddof=1) for x in others])
    expected = np.log(left_out.cdf(y + 0.5) - left_out.cdf(y - 0.5))
    np.testing.assert_allclose(simple_models.constant_rounded(y), expected, rtol=1e-9)


def test_the_regressor_takes_them_for_counts_and_remembers_it_in_a_file(tmp_path):
    inputs = np.arange(120.0).reshape(60, 2) % 7
    model = bb.BBAlphaRegressor((), max_epochs=2, num_predictive_samples=20, random_state=0)
    with pytest.warns(match="did not converge"):
        model.fit(inputs, VISITS[:, 0])
    assert model.likelihood_ == "negative_binomial"
    assert (model.predict_quantiles(inputs) % 1 == 0).all()
    verdict = bb.judge(model, inputs, VISITS[:, 0])
    assert verdict.constant == simple_models.constant_count(VISITS[:, 0]).mean()
    model.save(tmp_path / "model")
    again = bb.BBAlphaRegressor.load(tmp_path / "model")
    assert (again.likelihood, again.likelihood_) == ("auto", "negative_binomial")
    np.testing.assert_array_equal(again.predict(inputs), model.predict(inputs))
    with pytest.raises(ValueError, match=r"counts for likelihood='negative_binomial'; got 0\.5\."):
        again.score_samples(inputs, VISITS[:, 0] + 0.5)
