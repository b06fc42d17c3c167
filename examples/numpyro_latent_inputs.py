"""A network with latent inputs on bimodal data, and its uncertainty split in two.

Each data point has an input z of its own that nobody sees (Depeweg et al., 2018). What varies with
z is noise in the data; what varies with the weights is doubt about the network.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bbalpha.interfaces.numpyro import fit

HIDDEN = 20
random = np.random.default_rng(0)
places = random.uniform(-2, 2, 400).astype(np.float32)
branch = np.where(random.random(400) < 0.5, 1.0, -1.0)
heights = (branch * np.cos(places) + 0.1 * random.normal(size=400)).astype(np.float32)


def outputs_of(weights, places, latent):
    first, bias, last = weights
    inputs = jnp.stack([places, latent], axis=-1)
    return jnp.tanh(inputs @ first + bias) @ last


def model(places, heights=None):
    shapes = {"first": (2, HIDDEN), "bias": (HIDDEN,), "last": (HIDDEN,)}
    weights = [
        numpyro.sample(name, dist.Normal(0, 1).expand(shape).to_event(len(shape)))
        for name, shape in shapes.items()
    ]
    with numpyro.plate("data", len(places)):
        latent = numpyro.sample("latent", dist.Normal(0, 1))
        outputs = numpyro.deterministic("outputs", outputs_of(weights, places, latent))
        numpyro.sample("heights", dist.Normal(outputs, 0.1), obs=heights)


posterior = fit(
    model, jnp.asarray(places), heights, alpha=1.0, num_particles=50, key=jax.random.key(0)
)
new = jnp.array([0.0, 1.57])
predictive = posterior.predictive(500, key=jax.random.key(1), new_data=True)
heights = predictive(jax.random.key(2), new)["heights"]
apart = np.mean(np.abs(heights) > 0.5, axis=0)
print(f"share of draws beyond ±0.5: {apart[0]:.2f} between branches, {apart[1]:.2f} at a crossing")

draws = posterior.sample(200, key=jax.random.key(3))
weights = [draws[name] for name in ("first", "bias", "last")]
latent = jax.random.normal(jax.random.key(4), (200, 1))
places = jnp.broadcast_to(new, (200, 2))
outputs = jax.vmap(lambda weights: outputs_of(weights, places, jnp.tile(latent, 2)))(weights)
aleatoric = np.var(outputs, axis=1).mean(axis=0) + 0.1**2  # within a network, over z and noise
epistemic = np.mean(outputs, axis=1).var(axis=0)  # between networks
for place, noise, doubt in zip(new, aleatoric, epistemic, strict=True):
    print(f"at {place:.2f}: variance of the data {noise:.3f}, doubt about the mean {doubt:.3f}")
