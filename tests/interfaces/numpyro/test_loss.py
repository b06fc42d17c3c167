"""The loss against `Trace_ELBO`, `RenyiELBO`, `bb.alpha_energy` and formulas written by hand."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from jax.scipy.stats import norm
from numpyro import handlers
from numpyro.infer import SVI, RenyiELBO, Trace_ELBO, autoguide
from problems.numpyro_models import INPUTS, PAIRS, TARGETS, draws_of, gaussian_guide, linear

import bbalpha as bb
from bbalpha.interfaces.numpyro import BBAlphaELBO, count_steps
from bbalpha.interfaces.numpyro.traces import Program

KEY = jax.random.key(3)
ALPHAS = (-1.0, 0.0, 0.5, 1.0)
DATA = jnp.array([0.5, 1.5, 2.5, -0.3, 0.7, 0.1])


def located(guide_mean=0.4, guide_deviation=0.5):
    """A guide for one site `mean`, without parameters."""

    def guide(*args, **kwargs):
        numpyro.sample("mean", dist.Normal(guide_mean, guide_deviation))

    return guide


def value_of(loss, model, guide, *args, params=None, key=KEY, **kwargs):
    @jax.jit
    def value(key, params):
        return loss.loss(key, params, model, guide, *args, **kwargs)

    return value(key, params or {})


def constrained(inputs, targets, batch_size=None):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([3]).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    with numpyro.plate("data", len(inputs), subsample_size=batch_size) as rows:
        numpyro.sample("y", dist.Normal(inputs[rows] @ weights, scale), obs=targets[rows])


def listed(model):
    guide = autoguide.AutoGuideList(model)
    guide.append(autoguide.AutoNormal(handlers.block(model, hide=["scale"])))
    guide.append(autoguide.AutoMultivariateNormal(handlers.block(model, hide=["weights"])))
    return guide


GUIDES = {
    "AutoNormal": autoguide.AutoNormal,
    "AutoDiagonalNormal": autoguide.AutoDiagonalNormal,
    "AutoMultivariateNormal": autoguide.AutoMultivariateNormal,
    "AutoLowRankMultivariateNormal": autoguide.AutoLowRankMultivariateNormal,
    "AutoBNAFNormal": partial(autoguide.AutoBNAFNormal, num_flows=1, hidden_factors=[4]),
    "AutoIAFNormal": partial(autoguide.AutoIAFNormal, num_flows=1, hidden_dims=[8]),
    "AutoGuideList": listed,
}


QUICK_GUIDE = "AutoGuideList"  # of an AutoNormal and an AutoMultivariateNormal


@pytest.mark.parametrize(
    "make_guide",
    [
        pytest.param(make, id=name, marks=() if name == QUICK_GUIDE else pytest.mark.slow)
        for name, make in GUIDES.items()
    ],
)
def test_at_alpha_zero_value_and_gradient_are_those_of_trace_elbo(make_guide):
    guide = make_guide(constrained)
    data = (INPUTS[:20], TARGETS[:20])
    svi = SVI(constrained, guide, optax.sgd(0.1), Trace_ELBO())
    params = svi.get_params(svi.init(jax.random.key(0), *data))
    assert_same_as_trace_elbo(constrained, guide, params, *data)


def assert_same_as_trace_elbo(model, guide, params, *args, num_particles=4):
    losses = BBAlphaELBO(0.0, num_particles), Trace_ELBO(num_particles)

    @jax.jit
    def both(params):
        return [
            jax.value_and_grad(
                lambda params, loss=loss: loss.loss(KEY, params, model, guide, *args)
            )(params)
            for loss in losses
        ]

    found, expected = both(params)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    for leaf, other in zip(*map(jax.tree.leaves, (found[1], expected[1])), strict=True):
        np.testing.assert_allclose(leaf, other, rtol=1e-5, atol=1e-5 * np.max(np.abs(other)))


def test_at_alpha_zero_it_is_trace_elbo_on_indices_that_the_user_passes():
    guide, params, _ = gaussian_guide(3)
    rows = jnp.array([3, 17, 60, 120, 199])
    model = handlers.substitute(partial(linear, batch_size=5), data={"data": rows})
    assert_same_as_trace_elbo(model, guide, params, INPUTS, TARGETS)


@pytest.mark.parametrize("name", PAIRS)
def test_loss_is_the_energy_of_bbalpha_on_all_data_and_on_a_minibatch(name):
    model, data, log_likelihood, num_weights = PAIRS[name]
    guide, params, q = gaussian_guide(num_weights)
    prior = bb.DiagonalGaussian(jnp.zeros(num_weights), jnp.zeros(num_weights))
    rows = jnp.array([5, 100, 31, 150])
    on_rows = handlers.substitute(partial(model, batch_size=4), data={"data": rows})
    settings = {"num_data": 200}

    def both(alpha):
        noise = (draws_of(guide, params, jax.random.split(KEY, 6)) - q.mean) / params["deviation"]
        loss, pairs = BBAlphaELBO(alpha, 6), []
        for batch, its_model in ((data, model), (tuple(of[rows] for of in data), on_rows)):
            energy = bb.alpha_energy(
                log_likelihood, q, prior, batch, noise, alpha=alpha, **settings
            )
            pairs.append((loss.loss(KEY, params, its_model, guide, *data), energy))
        return jnp.array(pairs)

    for found, expected in jax.jit(jax.vmap(both))(jnp.array(ALPHAS)).reshape(-1, 2):
        np.testing.assert_allclose(found, expected, rtol=2e-5)


def test_losses_of_the_minibatches_of_an_epoch_average_to_the_loss_of_all_data():
    guide, params, _ = gaussian_guide(3)
    loss = BBAlphaELBO(0.5, 4)

    def of_batch(rows):
        model = handlers.substitute(partial(linear, batch_size=40), data={"data": rows})
        return loss.loss(KEY, params, model, guide, INPUTS, TARGETS)

    parts = jax.jit(jax.vmap(of_batch))(jnp.arange(200).reshape(5, 40))
    whole = value_of(loss, linear, guide, INPUTS, TARGETS, params=params)
    np.testing.assert_allclose(jnp.mean(parts), whole, rtol=2e-5)


def test_all_particles_see_the_same_minibatch():
    """With draws that hardly differ, ratios of different minibatches would."""
    guide = located(guide_deviation=1e-6)

    def model(data):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("data", len(data), subsample_size=2) as rows:
            numpyro.sample("x", dist.Normal(mean, 1), obs=data[rows])

    loss = BBAlphaELBO(0.0, 5)

    @jax.jit
    def log_likelihoods(key):
        keys = jax.random.split(key, 5)
        return loss.of_draws(keys, key, {}, Program(model, guide, (DATA,), {})).log_likelihoods

    first, second = map(log_likelihoods, jax.random.split(KEY))
    assert np.ptp(first, axis=0).max() < 1e-4
    assert np.abs(first - second).max() > 0.1  # and other steps see others


def one_mean(data):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("data", len(data)):
        numpyro.sample("x", dist.Normal(mean, 1), obs=data)


@pytest.mark.parametrize("alpha", [-0.5, 1.0])
def test_with_one_datum_it_is_the_renyi_bound_with_alpha_counted_from_the_other_end(alpha):
    guide, data = located(), DATA[:1]
    renyi = value_of(RenyiELBO(alpha=1 - alpha, num_particles=5), one_mean, guide, data)
    found = value_of(BBAlphaELBO(alpha, 5), one_mean, guide, data, key=jax.random.split(KEY)[1])
    np.testing.assert_allclose(found, renyi, rtol=2e-5)


def test_where_all_sites_are_local_it_is_the_renyi_bound_of_each_index():
    alpha = 0.5

    def model(data):
        with numpyro.plate("data", len(data)):
            mean = numpyro.sample("mean", dist.Normal(0, 1))
            numpyro.sample("x", dist.Normal(mean, 1), obs=data)

    def guide(data):
        with numpyro.plate("data", len(data)):
            numpyro.sample("mean", dist.Normal(0.5 * data, 0.6))

    renyi = value_of(RenyiELBO(alpha=1 - alpha, num_particles=5), model, guide, DATA)
    found = value_of(BBAlphaELBO(alpha, 5), model, guide, DATA, key=jax.random.split(KEY)[1])
    np.testing.assert_allclose(found, renyi, rtol=2e-5)


def test_renyi_elbo_raises_on_the_minibatched_model_that_this_loss_trains():
    guide, params, _ = gaussian_guide(3)
    model = partial(linear, batch_size=32)
    with pytest.raises(ValueError, match="only supports subsampling in plates that are common"):
        value_of(RenyiELBO(alpha=0.5), model, guide, INPUTS, TARGETS, params=params)
    assert np.isfinite(value_of(BBAlphaELBO(), model, guide, INPUTS, TARGETS, params=params))


@partial(jax.jit, static_argnums=0)
def means_drawn(num_particles, mean=0.4, deviation=0.5):
    """The draws of `located` under `KEY`, and their log q − log p₀."""

    def draw(key):
        seeded = handlers.seed(located(mean, deviation), jax.random.split(key)[1])
        return handlers.trace(seeded).get_trace()["mean"]["value"]

    draws = jax.vmap(draw)(jax.random.split(KEY, num_particles))
    return draws, norm.logpdf(draws, mean, deviation) - norm.logpdf(draws)


def test_nested_and_independent_plates_share_the_prior_among_all_data_points():
    """N = 3·2 + 4: each of the ten data points carries a tenth of log q − log p₀."""
    table, more = DATA.reshape(2, 3), DATA[:4]

    def model():
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("columns", 3), numpyro.plate("rows", 2):
            numpyro.sample("x", dist.Normal(mean, 1), obs=table)
        with numpyro.plate("more", 4):
            numpyro.sample("y", dist.Normal(mean, 2), obs=more)

    draws, log_ratio = means_drawn(5)
    values = jnp.concatenate(
        [norm.logpdf(DATA, draws[:, None], 1), norm.logpdf(more, draws[:, None], 2)], axis=1
    )
    expected = -jnp.sum(bb.log_power_mean(values - log_ratio[:, None] / 10, 0.5))
    np.testing.assert_allclose(value_of(BBAlphaELBO(0.5, 5), model, located()), expected, rtol=2e-5)


def test_a_site_of_the_outer_plate_is_shared_by_the_data_points_inside_its_index():
    """Effects of two groups with three data points each: a third of log q − log p per datum."""
    table = DATA.reshape(3, 2)

    def model():
        with numpyro.plate("groups", 2):
            effect = numpyro.sample("effect", dist.Normal(0, 1))
            with numpyro.plate("members", 3):
                numpyro.sample("x", dist.Normal(effect, 1), obs=table)

    def guide():
        with numpyro.plate("groups", 2):
            numpyro.sample("effect", dist.Normal(jnp.array([0.3, -0.2]), 0.5))

    def draw(key):
        return handlers.trace(handlers.seed(guide, jax.random.split(key)[1])).get_trace()

    of_keys = jax.jit(jax.vmap(lambda key: draw(key)["effect"]["value"]))
    draws = of_keys(jax.random.split(KEY, 5))
    log_ratio = norm.logpdf(draws, jnp.array([0.3, -0.2]), 0.5) - norm.logpdf(draws)
    values = norm.logpdf(table, draws[:, None], 1) - log_ratio[:, None] / 3
    expected = -jnp.sum(bb.log_power_mean(values, 0.5))
    np.testing.assert_allclose(value_of(BBAlphaELBO(0.5, 5), model, guide), expected, rtol=2e-5)


def test_effects_of_groups_that_data_points_look_up_are_shared_by_all():
    groups = jnp.array([0, 1, 0, 1, 1, 0])

    def model(data):
        with numpyro.plate("groups", 2):
            effect = numpyro.sample("effect", dist.Normal(0, 1))
        with numpyro.plate("data", len(data)):
            numpyro.sample("x", dist.Normal(effect[groups], 1), obs=data)

    def guide(data):
        with numpyro.plate("groups", 2):
            numpyro.sample("effect", dist.Normal(0.1, 0.5))

    def draw(key):
        return handlers.trace(handlers.seed(guide, jax.random.split(key)[1])).get_trace(DATA)

    of_keys = jax.jit(jax.vmap(lambda key: draw(key)["effect"]["value"]))
    draws = of_keys(jax.random.split(KEY, 5))
    log_ratio = jnp.sum(norm.logpdf(draws, 0.1, 0.5) - norm.logpdf(draws), axis=1)
    values = norm.logpdf(DATA, draws[:, groups], 1) - log_ratio[:, None] / 6
    expected = -jnp.sum(bb.log_power_mean(values, 0.5))
    found = value_of(BBAlphaELBO(0.5, 5), model, guide, DATA)
    np.testing.assert_allclose(found, expected, rtol=2e-5)


def test_several_observed_sites_of_a_plate_are_added_for_each_index():
    def model(data):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("data", len(data)):
            numpyro.sample("x", dist.Normal(mean, 1), obs=data)
            numpyro.sample("y", dist.Normal(mean, 3), obs=data**2)

    draws, log_ratio = means_drawn(5)
    values = norm.logpdf(DATA, draws[:, None], 1) + norm.logpdf(DATA**2, draws[:, None], 3)
    expected = -jnp.sum(bb.log_power_mean(values - log_ratio[:, None] / 6, 0.5))
    found = value_of(BBAlphaELBO(0.5, 5), model, located(), DATA)
    np.testing.assert_allclose(found, expected, rtol=2e-5)


def test_the_factor_of_a_plate_is_divided_out_and_that_of_the_user_kept():
    rows, factor = jnp.array([1, 4]), 0.3

    def model(data):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("data", 6, subsample_size=2) as taken, handlers.scale(scale=factor):
            numpyro.sample("x", dist.Normal(mean, 1), obs=data[taken])

    draws, log_ratio = means_drawn(5)
    values = factor * norm.logpdf(DATA[rows], draws[:, None], 1) - log_ratio[:, None] / 6
    expected = -3 * jnp.sum(bb.log_power_mean(values, 0.5))
    model = handlers.substitute(model, data={"data": rows})
    found = value_of(BBAlphaELBO(0.5, 5), model, located(), DATA)
    np.testing.assert_allclose(found, expected, rtol=2e-5)


def test_a_masked_datum_is_as_good_as_none():
    def model(data, mask):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("data", len(data)), handlers.mask(mask=mask):
            numpyro.sample("x", dist.Normal(mean, 1), obs=data)

    mask = jnp.array([True, True, False, True, False, True])
    loss = BBAlphaELBO(0.5, 5)
    found, slope = jax.value_and_grad(
        lambda mean: value_of(loss, model, located(mean), DATA.at[2].set(1e6), mask)
    )(0.4)
    expected, its_slope = jax.value_and_grad(
        lambda mean: value_of(loss, one_mean, located(mean), DATA[mask])
    )(0.4)
    np.testing.assert_allclose([found, slope], [expected, its_slope], rtol=2e-5)


def test_a_missing_value_is_imputed_inside_its_own_data_point():
    """The guide's density counts at the missing index only: the others have no such site."""
    mask = jnp.array([True, True, False, True, True, True])

    def model(data):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("data", len(data)):
            numpyro.sample("x", dist.Normal(mean, 1), obs=data, obs_mask=mask)

    def guide(data):
        numpyro.sample("mean", dist.Normal(0.4, 0.5))
        with numpyro.plate("data", len(data)):
            numpyro.sample("x_unobserved", dist.Normal(0.2, 1.1))

    def draw(key):
        trace = handlers.trace(handlers.seed(guide, jax.random.split(key)[1])).get_trace(DATA)
        return trace["mean"]["value"], trace["x_unobserved"]["value"]

    means, imputed = jax.jit(jax.vmap(draw))(jax.random.split(KEY, 5))
    log_ratio = norm.logpdf(means, 0.4, 0.5) - norm.logpdf(means)
    seen = norm.logpdf(DATA, means[:, None], 1)
    missing = norm.logpdf(imputed, means[:, None], 1) - norm.logpdf(imputed, 0.2, 1.1)
    values = jnp.where(mask, seen, missing) - log_ratio[:, None] / 6
    expected = -jnp.sum(bb.log_power_mean(values, 0.5))
    found = value_of(BBAlphaELBO(0.5, 5), model, guide, DATA)
    np.testing.assert_allclose(found, expected, rtol=2e-5)


def test_a_latent_site_whose_data_are_all_masked_keeps_its_divergence_from_the_prior():
    mask = jnp.array([[True, False], [True, False], [False, False]])

    def model():
        with numpyro.plate("groups", 2):
            effect = numpyro.sample("effect", dist.Normal(0, 1))
            with numpyro.plate("members", 3), handlers.mask(mask=mask):
                numpyro.sample("x", dist.Normal(effect, 1), obs=DATA.reshape(3, 2))

    def guide():
        with numpyro.plate("groups", 2):
            numpyro.sample("effect", dist.Normal(jnp.array([0.3, -0.2]), 0.5))

    assert_same_as_trace_elbo(model, guide, {"unused": jnp.zeros(())})


def test_a_factor_outside_of_plates_belongs_to_the_prior():
    def with_factor(data):
        mean = numpyro.sample("mean", dist.ImproperUniform(dist.constraints.real, (), ()))
        numpyro.factor("prior", norm.logpdf(mean))
        with numpyro.plate("data", len(data)):
            numpyro.sample("x", dist.Normal(mean, 1), obs=data)

    loss = BBAlphaELBO(0.5, 5)
    np.testing.assert_allclose(
        value_of(loss, with_factor, located(), DATA),
        value_of(loss, one_mean, located(), DATA),
        rtol=2e-5,
    )


def test_num_data_takes_the_first_axis_for_the_plate():
    def without_plate(data):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        numpyro.sample("x", dist.Normal(mean, 1), obs=data)

    found = value_of(BBAlphaELBO(0.5, 5, num_data=6), without_plate, located(), DATA)
    expected = value_of(BBAlphaELBO(0.5, 5), one_mean, located(), DATA)
    np.testing.assert_allclose(found, expected, rtol=2e-5)
    on_half = value_of(BBAlphaELBO(0.0, 5, num_data=6), without_plate, located(), DATA[:3])
    draws, log_ratio = means_drawn(5)
    values = 2 * jnp.sum(norm.logpdf(DATA[:3], draws[:, None], 1), axis=1) - log_ratio
    np.testing.assert_allclose(on_half, -jnp.mean(values), rtol=2e-5)


def test_chunks_of_particles_change_nothing():
    guide, params, _ = gaussian_guide(3)

    @jax.jit
    def values_and_gradients(params):
        return [
            jax.value_and_grad(
                lambda params, loss=loss: loss.loss(KEY, params, linear, guide, INPUTS, TARGETS)
            )(params)
            for loss in (
                BBAlphaELBO(0.5, 7),
                BBAlphaELBO(0.5, 7, particle_chunk=3),
                BBAlphaELBO(0.5, 7, vectorize_particles=False),
                BBAlphaELBO(0.5, 7, vectorize_particles=jax.lax.map),
            )
        ]

    whole, *others = map(jax.tree.leaves, values_and_gradients(params))
    for other in others:
        for leaf, expected in zip(other, whole, strict=True):
            np.testing.assert_allclose(leaf, expected, rtol=1e-4, atol=1e-4)


def test_alpha_may_be_traced_with_a_single_particle():
    guide, params, _ = gaussian_guide(3)

    @jax.jit
    def of_alpha(alpha):
        return BBAlphaELBO(alpha, 1).loss(KEY, params, linear, guide, INPUTS, TARGETS)

    expected = value_of(BBAlphaELBO(0.0, 1), linear, guide, INPUTS, TARGETS, params=params)
    np.testing.assert_allclose(of_alpha(0.5), expected, rtol=2e-5)


def test_a_parameter_inside_the_model_has_the_gradient_of_its_formula():
    """The center of the prior is learned by `numpyro.param`."""

    def model(data):
        center = numpyro.param("center", 0.0)
        mean = numpyro.sample("mean", dist.Normal(center, 1))
        with numpyro.plate("data", len(data)):
            numpyro.sample("x", dist.Normal(mean, 1), obs=data)

    draws, _ = means_drawn(5)

    def expected(center):
        log_ratio = norm.logpdf(draws, 0.4, 0.5) - norm.logpdf(draws, center)
        values = norm.logpdf(DATA, draws[:, None], 1) - log_ratio[:, None] / 6
        return -jnp.sum(bb.log_power_mean(values, 0.5))

    def found(center):
        loss = BBAlphaELBO(0.5, 5)
        return loss.loss(KEY, {"center": center}, model, located(), DATA)

    value, slope = jax.jit(jax.value_and_grad(found))(0.7)
    its_value, its_slope = jax.jit(jax.value_and_grad(expected))(0.7)
    np.testing.assert_allclose([value, slope], [its_value, its_slope], rtol=2e-5)


def test_a_schedule_of_alpha_follows_the_steps_of_svi():
    loss = BBAlphaELBO(lambda step: 0.25 * step, 5)
    guide, params, _ = gaussian_guide(3)
    svi = SVI(linear, count_steps(guide), optax.sgd(0.0), loss)
    state = svi.init(jax.random.key(0), INPUTS, TARGETS)

    @jax.jit
    def update(state, alpha):
        key = jax.random.split(state.rng_key)[1]
        expected = BBAlphaELBO(alpha, 5).loss(key, params, linear, guide, INPUTS, TARGETS)
        return *svi.update(state, INPUTS, TARGETS), expected

    for alpha in (0.0, 0.25, 0.5):
        state, found, expected = update(state, alpha)
        np.testing.assert_allclose(found, expected, rtol=2e-5)


def test_mutable_state_is_averaged_over_the_particles():
    def model(data):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        state = numpyro.primitives.mutable("state", {"last": jnp.zeros(())})
        state["last"] = mean
        with numpyro.plate("data", len(data)):
            numpyro.sample("x", dist.Normal(mean, 1), obs=data)

    @jax.jit
    def values(params):
        return BBAlphaELBO(0.5, 5).loss_with_mutable_state(KEY, params, model, located(), DATA)

    found = values({"state": {"last": jnp.zeros(())}})
    np.testing.assert_allclose(
        found["mutable_state"]["state"]["last"], jnp.mean(means_drawn(5)[0]), rtol=1e-5
    )
