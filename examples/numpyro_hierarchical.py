"""Hierarchical logistic regression in NumPyro, fitted by BB-α, and a school it has not seen."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bbalpha.interfaces.numpyro import fit

NUM_SCHOOLS = 12
random = np.random.default_rng(0)
schools = np.repeat(np.arange(NUM_SCHOOLS), 25)
hours = random.normal(size=len(schools)).astype(np.float32)
levels = 0.3 + 0.8 * random.normal(size=NUM_SCHOOLS)
chance = 1 / (1 + np.exp(-levels[schools] - 1.2 * hours))
passed = (random.random(len(schools)) < chance).astype(np.float32)


def model(schools, hours, passed=None):
    center = numpyro.sample("center", dist.Normal(0, 2))
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    with numpyro.plate("schools", NUM_SCHOOLS):
        shift = numpyro.sample("shift", dist.Normal(0, 1))
    logits = center + spread * shift[schools] + slope * hours
    with numpyro.plate("students", len(schools)):
        numpyro.sample("passed", dist.Bernoulli(logits=logits), obs=passed)


posterior = fit(model, schools, jnp.asarray(hours), passed, alpha=0.25, key=jax.random.key(0))
print(posterior)
for row in posterior.summary().rows:
    print(f"{row.name}: {row.mean:.2f} ± {row.deviation:.2f}")
draws = posterior.sample(4000, key=jax.random.key(1))
new_school = draws["center"] + draws["spread"] * np.random.default_rng(1).normal(size=4000)
chances = 1 / (1 + np.exp(-np.asarray(new_school)))
low, high = np.quantile(chances, [0.05, 0.95])
print(
    f"chance to pass at a new school: {chances.mean():.2f}, 90 % between {low:.2f} and {high:.2f}"
)
