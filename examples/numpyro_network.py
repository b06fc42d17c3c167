"""A Bayesian network in NumPyro, minibatched: the loss is the only word that changes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
from numpyro.contrib.module import random_eqx_module
from numpyro.infer import SVI, Predictive
from numpyro.infer.autoguide import AutoNormal
from sklearn.datasets import load_diabetes

import bbalpha as bb
from bbalpha.interfaces.numpyro import BBAlphaELBO

features, progression = load_diabetes(return_X_y=True)
(train,), (test,) = bb.splits(len(features), num_splits=1)
inputs, input_units = bb.standardize(features[train])
targets, target_units = bb.standardize(progression[train])
network = eqx.nn.MLP(10, "scalar", width_size=30, depth=1, key=jax.random.key(0))


def model(inputs, targets=None, batch_size=None):
    outputs_of = random_eqx_module("network", network, prior=dist.Normal(0, 0.5))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    with numpyro.plate("data", len(inputs), subsample_size=batch_size) as rows:
        outputs = jax.vmap(outputs_of)(inputs[rows])
        observed = None if targets is None else targets[rows]
        numpyro.sample("y", dist.Normal(outputs, noise), obs=observed)


guide = AutoNormal(model, init_loc_fn=numpyro.infer.init_to_uniform(radius=0.1), init_scale=0.01)
optimizer = optax.adam(optax.cosine_decay_schedule(0.01, 3000))
svi = SVI(model, guide, optimizer, BBAlphaELBO(alpha=0.5, num_particles=20))  # was Trace_ELBO
data = jnp.asarray(inputs), jnp.asarray(targets[:, 0] if targets.ndim > 1 else targets)
result = svi.run(jax.random.key(1), 3000, *data, batch_size=32, progress_bar=False)

predictive = Predictive(model, guide=guide, params=result.params, num_samples=1000)
test_inputs = jnp.asarray(input_units.transform(features[test]))
draws = predictive(jax.random.key(2), test_inputs)["y"]
draws = target_units.inverse(np.asarray(draws)[..., None])[..., 0]
rmse = bb.metrics.rmse(draws.mean(axis=0), progression[test])
print(f"RMSE: {rmse:.1f}")
print(f"90 % intervals cover: {bb.metrics.coverage(draws, progression[test]):.2f}")
