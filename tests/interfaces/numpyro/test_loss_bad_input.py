"""Models, guides and settings that the loss refuses, each with a sentence that says why."""

from functools import partial

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from numpyro.infer import SVI, Trace_ELBO, autoguide

from bbalpha.interfaces.numpyro import BBAlphaELBO, fit, posterior_of

DATA = jnp.array([0.5, 1.5, 2.5, -0.3])


def model(data, batch_size=None):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("data", 4, subsample_size=batch_size) as rows:
        numpyro.sample("x", dist.Normal(mean, 1), obs=data[rows])


def without_plate(data):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    numpyro.sample("x", dist.Normal(mean, 1), obs=data)


def local(data):
    with numpyro.plate("data", len(data)):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        numpyro.sample("x", dist.Normal(mean, 1), obs=data)


def discrete(data):
    with numpyro.plate("data", len(data)):
        part = numpyro.sample("part", dist.Bernoulli(0.5))
        numpyro.sample("x", dist.Normal(part, 1), obs=data)


def guide(data):
    numpyro.sample("mean", dist.Normal(0, 1))


def guide_of(distribution, name="mean"):
    return lambda data: numpyro.sample(name, distribution)


def loss_of(model, guide, loss=None):
    return (loss or BBAlphaELBO(0.5, 2)).loss(jax.random.key(0), {}, model, guide, DATA)


def test_observed_sites_need_a_plate_or_the_number_of_data():
    with pytest.raises(
        ValueError, match=r"must lie in a numpyro\.plate .*site 'x' in none.*num_da"
    ):
        loss_of(without_plate, guide)
    with pytest.raises(ValueError, match=r"num_data must be left out .*num_data=4 .*plate 'data'"):
        loss_of(model, guide, BBAlphaELBO(num_data=4))
    with pytest.raises(ValueError, match=r"num_data must be positive and finite; got num_data=0"):
        BBAlphaELBO(num_data=0)
    with pytest.raises(ValueError, match=r"num_data must be the number of rows, because fit needs"):
        fit(without_plate, DATA, num_data=7, key=jax.random.key(0))


def test_more_rows_than_num_data_are_refused():
    with pytest.raises(ValueError, match=r"num_data must be at least .*num_data=3 with 4 rows\."):
        loss_of(without_plate, guide, BBAlphaELBO(num_data=3))


def test_rows_of_several_sites_without_plates_must_be_as_many():
    def two(data):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        numpyro.sample("x", dist.Normal(mean, 1), obs=data)
        numpyro.sample("y", dist.Normal(mean, 1), obs=data[:2])

    with pytest.raises(ValueError, match=r"observed sites of one length; got lengths 2, 4\."):
        loss_of(two, guide, BBAlphaELBO(num_data=4))


def test_a_discrete_latent_site_is_refused():
    def of_parts(data):
        with numpyro.plate("data", len(data)):
            numpyro.sample("part", dist.Bernoulli(0.5))

    with pytest.raises(ValueError, match=r"latent site 'part' must be continuous.*Bernoulli.*Mixt"):
        loss_of(discrete, of_parts)
    with pytest.raises(ValueError, match=r"latent site 'part' must be continuous"):
        fit(discrete, DATA, key=jax.random.key(0))


def test_a_model_without_latent_sites_has_no_posterior():
    def only_data(data):
        with numpyro.plate("data", 4):
            numpyro.sample("x", dist.Normal(0, 1), obs=data)

    with pytest.raises(ValueError, match=r"model must have a latent site, .*; got none\."):
        fit(only_data, DATA, key=jax.random.key(0))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            autoguide.AutoDAIS,
            r"must have a density at its draws; got an AutoDAIS, which knows only",
        ),
        (autoguide.AutoDelta, r"must have a density; got an AutoDelta, which is a point while"),
        (autoguide.AutoLaplaceApproximation, r"got an AutoLaplaceApproximation, which is a point"),
    ],
)
def test_an_automatic_guide_without_a_density_is_refused(make, reason):
    with pytest.raises(ValueError, match=reason):
        loss_of(model, make(model))
    with pytest.raises(ValueError, match=reason):
        fit(model, DATA, guide=make, key=jax.random.key(0))


def test_a_guide_whose_draws_carry_no_gradient_is_refused():
    of_mixture = dist.MixtureSameFamily(
        dist.Categorical(jnp.ones(2) / 2), dist.Normal(jnp.zeros(2), jnp.ones(2))
    )
    with pytest.raises(ValueError, match=r"guide site 'mean' must be reparameterized.*Mixture"):
        loss_of(model, guide_of(of_mixture))
    with pytest.raises(ValueError, match=r"guide site 'mean' must have a density; got a Delta"):
        loss_of(model, guide_of(dist.Delta(0.3)))


def test_a_guide_that_leaves_out_a_latent_site_is_refused():
    def two(data):
        numpyro.sample("other", dist.Normal(0, 1))
        model(data)

    def of_one(data):
        numpyro.sample("mean", dist.Normal(numpyro.param("center", 0.0), 1))

    reason = r"guide must draw every latent site of the model; got none named 'other'\. Add numpy"
    with pytest.raises(ValueError, match=reason):
        loss_of(two, guide)
    svi = SVI(two, of_one, optax.sgd(0.1), Trace_ELBO())
    with pytest.warns(UserWarning, match="Found vars in model but not guide"):
        result = svi.run(jax.random.key(0), 2, DATA, progress_bar=False)
    with pytest.raises(ValueError, match=reason):
        posterior_of(svi, result, DATA)


def test_plates_must_be_subsampled_alike_in_model_and_guide():
    def local_guide(data, batch_size=None):
        with numpyro.plate("data", 4, subsample_size=batch_size):
            numpyro.sample("mean", dist.Normal(0, 1))

    with pytest.raises(ValueError, match=r"plate 'data' .* got 4 of 4 in the model and 2 of 4 in"):
        loss_of(local, partial(local_guide, batch_size=2))


def test_alpha_beyond_the_number_of_data_is_refused():
    with pytest.raises(ValueError, match=r"number of data points, .*alpha=4\.5 with 4 data points"):
        loss_of(model, guide, BBAlphaELBO(4.5))
    with pytest.raises(
        ValueError, match=r"not exceed 1 if latent sites .*alpha=1\.5 .*site 'mean'"
    ):
        loss_of(local, autoguide_like_local, BBAlphaELBO(1.5))
    with pytest.raises(ValueError, match=r"alpha must be a finite number; got alpha=nan"):
        BBAlphaELBO(float("nan"))


def autoguide_like_local(data):
    with numpyro.plate("data", len(data)):
        numpyro.sample("mean", dist.Normal(0, 1))


def test_one_particle_makes_alpha_meaningless_and_warns():
    with pytest.warns(
        UserWarning, match=r"num_particles should exceed 1 .*num_particles=1 with al"
    ):
        BBAlphaELBO(0.5, num_particles=1)
    BBAlphaELBO(0.0, num_particles=1)


def test_a_schedule_needs_a_guide_that_counts_steps():
    svi = SVI(model, guide, optax.sgd(0.1), BBAlphaELBO(lambda step: 0.1 * step))
    state = svi.init(jax.random.key(0), DATA)
    with pytest.raises(ValueError, match=r"alpha must be a number unless .*count_steps\(guide\)"):
        svi.update(state, DATA)


def test_natural_gradients_need_a_plain_model():
    with pytest.raises(
        ValueError, match=r'optimizer must not be "natural" unless the model has on'
    ):
        fit(local, DATA, optimizer="natural", key=jax.random.key(0))
