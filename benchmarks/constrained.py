"""Write tests/problems/constrained.json: posteriors of constrained parameters, by NUTS.

`python benchmarks/constrained.py`. The models are written once more in NumPyro, whose own
distributions and transforms are used, in double precision; nothing of bbalpha is.
"""

from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import NUTS, init_to_value
from references import sampled, write

PROBLEMS = Path(__file__).parents[1] / "tests" / "problems" / "constrained.py"
cases: Any = SourceFileLoader("constrained_problems", str(PROBLEMS)).load_module()


def weibull(inputs, times):
    shape = numpyro.sample("shape", dist.HalfNormal(cases.SHAPE_DEVIATION))
    weights = numpyro.sample("weights", dist.Normal(jnp.zeros(inputs.shape[1]), 1.0).to_event(1))
    numpyro.sample("times", dist.Weibull(jnp.exp(inputs @ weights), shape), obs=times)


def mixture(values):
    ordered = dist.ImproperUniform(dist.constraints.ordered_vector, (), (2,))
    means = numpyro.sample("means", ordered)
    numpyro.factor("prior", dist.Normal(0.0, cases.MEANS_DEVIATION).log_prob(means).sum())
    scales = numpyro.sample("scales", dist.HalfNormal(jnp.ones(2)).to_event(1))
    concentration = jnp.full(2, cases.SHARES_CONCENTRATION)
    shares = numpyro.sample("shares", dist.Dirichlet(concentration))
    of_each = dist.MixtureSameFamily(dist.Categorical(shares), dist.Normal(means, scales))
    numpyro.sample("values", of_each, obs=values)


MODELS = {"weibull": weibull, "mixture": mixture}


def main():
    found = {}
    for name, model in MODELS.items():
        problem = cases.CONSTRAINED[name]
        data = tuple(leaf.astype(np.float64) for leaf in problem.data)
        start = init_to_value(values=jax.tree.map(jnp.asarray, problem.params))
        kernel = NUTS(lambda model=model, data=data: model(*data), init_strategy=start)
        draws, facts = sampled(kernel)
        print(name, facts, flush=True)
        found[name] = facts | {
            "means": {part: np.mean(leaf, axis=(0, 1)) for part, leaf in draws.items()},
            "deviations": {part: np.std(leaf, axis=(0, 1)) for part, leaf in draws.items()},
        }
    write(found, cases.ANSWERS, "python benchmarks/constrained.py")


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
