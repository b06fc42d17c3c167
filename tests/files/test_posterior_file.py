"""Files of posteriors with constrained parameters and priors by log-density."""

import dataclasses
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import bbalpha as bb
from bbalpha.files import model_file
from bbalpha.files.posterior_file import metadata_of

PARAMS = {
    "chance": jnp.array(0.5),
    "cuts": jnp.arange(3.0),
    "rate": jnp.array(1.5),
    "scale": jnp.ones(2),
    "shares": jnp.full((2, 3), 1 / 3),
    "weights": jnp.zeros(2),
}
TRANSFORMS = {
    "chance": bb.probability,
    "cuts": bb.ordered,
    "rate": bb.interval(1.0, 2.5),
    "scale": bb.positive,
    "shares": bb.simplex,
}


@dataclasses.dataclass(frozen=True)
class Shifted:
    """A transform of the user's own."""

    by: float = 1.0

    def forward(self, free):
        return free + self.by

    def inverse(self, values):
        return values - self.by

    def log_det_jacobian(self, free):
        return jnp.zeros_like(free)


def posterior_with(transforms, prior=1.0):
    state = bb.init(
        *(lambda params, batch: batch, PARAMS),
        num_data=3,
        key=jax.random.key(0),
        transforms=transforms,
        prior=prior,
    )
    return state.posterior()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def assert_same(posterior, other):
    assert jax.tree.structure(posterior) == jax.tree.structure(other)
    for leaf, expected in zip(jax.tree.leaves(other), jax.tree.leaves(posterior), strict=True):
        np.testing.assert_array_equal(leaf, expected)


def said(message):
    return f"^{re.escape(message)}$"


def test_transforms_come_back_by_their_names_and_settings(path):
    posterior = posterior_with(TRANSFORMS)
    posterior.save(path)
    assert_same(bb.Posterior.load(path, PARAMS), posterior)
    assert_same(bb.Posterior.load(path, PARAMS, transforms=TRANSFORMS), posterior)


def test_a_file_without_transforms_is_written_as_before(path):
    posterior = posterior_with(None)
    leaves = [[path, [*shape]] for path, shape in zip(*paths_and_shapes(posterior), strict=True)]
    assert metadata_of(posterior)["params"] == leaves
    posterior.save(path)
    assert_same(bb.Posterior.load(path, PARAMS), posterior)


def paths_and_shapes(posterior):
    return posterior.layout.paths, posterior.layout.shapes


def test_other_transforms_than_those_fitted_are_refused(path):
    posterior_with(TRANSFORMS).save(path)
    message = (
        "params must have the leaves that were fitted, with the same paths, shapes and transforms; "
        "got [\"['rate']\", [], {'name': 'Interval', 'low': 1.0, 'high': 3.0}] where "
        "model.safetensors has [\"['rate']\", [], {'name': 'Interval', 'low': 1.0, 'high': 2.5}]."
    )
    with pytest.raises(ValueError, match=said(message)):
        bb.Posterior.load(path, PARAMS, transforms=TRANSFORMS | {"rate": bb.interval(1.0, 3.0)})


def test_a_transform_of_ones_own_must_be_given(path):
    transforms = TRANSFORMS | {"weights": Shifted(2.0)}
    posterior = posterior_with(transforms)
    posterior.save(path)
    assert_same(bb.Posterior.load(path, PARAMS, transforms=transforms), posterior)
    message = (
        "transforms must be given for a transform that is not bbalpha's own; "
        "got Shifted in model.safetensors."
    )
    with pytest.raises(ValueError, match=said(message)):
        bb.Posterior.load(path, PARAMS)
    with pytest.raises(ValueError, match=r"'by': 3\.0.* where .*'by': 2\.0"):
        bb.Posterior.load(path, PARAMS, transforms=TRANSFORMS | {"weights": Shifted(3.0)})


@pytest.mark.parametrize(
    "found",
    [
        *(None, [], "Positive", {}, {"name": 3}, {"name": ["Positive"]}),
        *({"name": "Positive", "low": 1.0}, {"name": "Interval"}),
        *(
            {"name": "Interval", "low": 2.0, "high": 1.0},
            {"name": "Interval", "low": [], "high": 1},
        ),
        *(
            {"name": "Interval", "low": 0, "high": 10**400},
            {"name": "Interval", "low": 0, "high": "x"},
        ),
    ],
)
def test_a_transform_that_makes_no_sense_is_reported(path, found):
    posterior = posterior_with(TRANSFORMS)
    metadata = metadata_of(posterior)
    metadata["params"][0][2] = found
    model_file.write(path, posterior, json.loads(json.dumps(metadata)))
    message = r"^model\.safetensors is not a valid bbalpha model: a transform is .*\.$"
    with pytest.raises(ValueError, match=message):
        bb.Posterior.load(path, PARAMS)


def test_a_transform_that_does_not_fit_its_parameter_is_reported(path):
    posterior = posterior_with(TRANSFORMS)
    metadata = metadata_of(posterior)
    metadata["params"][0][2] = {"name": "Simplex"}  # of a single number
    model_file.write(path, posterior, metadata)
    message = r"^model\.safetensors is not a valid bbalpha model: params is .*\.$"
    with pytest.raises(ValueError, match=message):
        bb.Posterior.load(path, PARAMS)


def log_density(params):
    return jnp.sum(norm.logpdf(params["scale"]))


PRIORS = {
    "a function": log_density,
    "a tree of functions and deviations": dict.fromkeys(PARAMS, 2.0) | {"scale": norm.logpdf},
}


@pytest.mark.parametrize("name", PRIORS)
def test_a_prior_by_its_density_comes_back_when_it_is_given_again(path, name):
    posterior = posterior_with(TRANSFORMS, PRIORS[name])
    posterior.save(path)
    assert_same(bb.Posterior.load(path, PARAMS, prior=PRIORS[name]), posterior)
    message = (
        "prior must be given as it was to fit, because a file holds no functions; "
        "got prior=None for model.safetensors."
    )
    with pytest.raises(ValueError, match=said(message)):
        bb.Posterior.load(path, PARAMS)
    message = "prior must be a DensityPrior, as in model.safetensors; got a DiagonalGaussian."
    with pytest.raises(ValueError, match=said(message)):
        bb.Posterior.load(path, PARAMS, prior=1.0)
