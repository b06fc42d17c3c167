"""Supports that depend on other sites: exact posteriors, and automatic guides refused."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from numpyro.distributions.transforms import AffineTransform
from numpyro.infer import SVI, Trace_ELBO, autoguide
from scipy.stats import multivariate_normal, norm

from bbalpha.interfaces.numpyro import BBAlphaELBO, fit, posterior_of
from bbalpha.interfaces.numpyro.structure import structure_of
from bbalpha.interfaces.numpyro.traces import Program

KEY = jax.random.key(0)
DATA = jnp.array([0.5, 0.3, 0.6, 0.2])
NOISE = 0.3


def nested(data):
    """A uniform number below another one; the first sees no data."""
    top = numpyro.sample("top", dist.Uniform(0, 1))
    part = numpyro.sample("part", dist.Uniform(0, top))
    with numpyro.plate("data", len(data)):
        numpyro.sample("x", dist.Normal(part, NOISE), obs=data)


def of_vectors(data):
    """The same for vectors, whose supports NumPyro itself takes for fixed ones."""
    top = numpyro.sample("top", dist.Uniform(0, 1).expand([2]).to_event(1))
    part = numpyro.sample("part", dist.Uniform(jnp.zeros(2), top).to_event(1))
    with numpyro.plate("data", len(data)):
        numpyro.sample("x", dist.Normal(part.sum(), NOISE), obs=data)


def above(data, batch_size=None):
    """A number above another one; in unconstrained values its posterior is a Gaussian."""
    low = numpyro.sample("low", dist.Normal(0, 1))
    shifted = AffineTransform(low, 1.0, domain=dist.constraints.positive)
    high = numpyro.sample("high", dist.TransformedDistribution(dist.LogNormal(0, 1), shifted))
    with numpyro.plate("data", len(data), subsample_size=batch_size) as rows:
        numpyro.sample("x", dist.Normal(low, 1), obs=data[rows])
        numpyro.sample("y", dist.Normal(jnp.log(high - low), 1), obs=2 * data[rows])


@pytest.fixture(scope="module")
def above_posterior():
    with jax.numpy_rank_promotion("allow"):
        return fit(above, DATA, alpha=0.0, key=KEY)


def test_a_number_above_another_one_has_its_exact_posterior_and_evidence(above_posterior):
    """Both `low` and log(high − low) have a mean with prior N(0, 1) and four data of variance 1."""
    assert above_posterior.structure.moving == ("high",)
    draws = above_posterior.sample(4000, key=KEY)
    deviation, num_data = 5**-0.5, len(DATA)
    numbers = draws["low"], jnp.log(draws["high"] - draws["low"])
    for values, total in zip(numbers, (jnp.sum(DATA), 2 * jnp.sum(DATA)), strict=True):
        error = 4 * deviation / np.sqrt(4000)
        assert abs(values.mean() - total / 5) < error + 0.02 * deviation  # `tolerance` of fit
        np.testing.assert_allclose(values.std(), deviation, rtol=0.06)
    prior = multivariate_normal(np.zeros(num_data), np.eye(num_data) + 1)
    evidence = prior.logpdf(np.asarray(DATA)) + prior.logpdf(2 * np.asarray(DATA))
    np.testing.assert_allclose(-above_posterior.energy, evidence, atol=0.01)
    exact = above_posterior.reweighted(key=KEY, num_samples=1000)
    assert exact.effective_size > 900
    np.testing.assert_array_less(exact.draws["low"], exact.draws["high"])


def test_draws_summary_and_predictions_keep_to_the_moving_support():
    posterior = fit(nested, DATA, alpha=0.0, key=KEY)
    draws = posterior.sample(4000, key=KEY)
    assert np.all((draws["part"] > 0) & (draws["part"] < draws["top"]) & (draws["top"] < 1))
    summary = posterior.summary()
    for name, values in draws.items():
        error = 4 * summary.deviation[name] / np.sqrt(4000)
        assert abs(summary.mean[name] - values.mean()) < error
    replicated = posterior.groups(100, key=KEY)["posterior_predictive"]["x"]
    assert replicated.shape == (100, 4)


def test_only_supports_that_depend_on_other_sites_count_as_moving():
    def fixed(data):
        spread = numpyro.sample("spread", dist.HalfNormal(1))
        share = numpyro.sample("share", dist.Uniform(jnp.zeros(()), jnp.max(data)))
        with numpyro.plate("data", len(data)):
            numpyro.sample("x", dist.Normal(share, spread), obs=data)

    for model, moving in ((fixed, ()), (nested, ("part",)), (of_vectors, ("part",))):
        assert structure_of(Program(model, None, (DATA,), {}), KEY).moving == moving


@pytest.mark.slow
def test_on_minibatches_a_number_above_another_one_has_its_exact_posterior():
    posterior = fit(above, DATA, batch_size=2, alpha=0.0, tolerance=0.05, key=KEY)
    draws = posterior.sample(4000, key=KEY)
    deviation = 5**-0.5
    error = (0.1 + 4 / np.sqrt(4000)) * deviation  # `tolerance` is two standard errors
    assert abs(draws["low"].mean() - jnp.sum(DATA) / 5) < error
    assert abs(jnp.log(draws["high"] - draws["low"]).mean() - 2 * jnp.sum(DATA) / 5) < error


REFUSED = r"guide must be a function if the support .*got an {} and the site 'part'\. Or give"


@pytest.mark.parametrize("loss", [BBAlphaELBO(0.5, 2), Trace_ELBO(2)], ids=["ours", "theirs"])
def test_automatic_guides_keep_one_support_and_are_refused(loss):
    svi = SVI(nested, autoguide.AutoNormal(nested), optax.adam(0.01), loss)
    with pytest.raises(ValueError, match=REFUSED.format("AutoNormal")):
        posterior_of(svi, svi.run(KEY, 2, DATA, progress_bar=False), DATA)


def test_fit_refuses_a_guide_that_keeps_one_support():
    with pytest.raises(ValueError, match=REFUSED.format("AutoIAFNormal")):
        fit(nested, DATA, guide=autoguide.AutoIAFNormal, num_epochs=2, key=KEY)


def test_a_guide_written_as_a_function_may_have_moving_supports():
    def guide(data):
        top = numpyro.sample("top", dist.Uniform(0, 1))
        numpyro.sample("part", dist.Uniform(0, top))

    loss = BBAlphaELBO(1.0, 2000)
    found = jax.jit(lambda key: loss.loss(key, {}, nested, guide, DATA[:1]))(KEY)
    top = np.linspace(0.0005, 0.9995, 1000)[:, None]
    part = top * np.linspace(0.0005, 0.9995, 1000)
    evidence = np.mean(norm.pdf(float(DATA[0]), part, NOISE))
    np.testing.assert_allclose(-found, np.log(evidence), atol=0.05)
