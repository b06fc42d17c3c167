"""Noise of the natural gradient by kind of draws, at equal time: `python benchmarks/draws.py`.

Three reference problems at two powers, with the full Gaussian that a fit returns. The gradient is
the one that fits use, along the path of the draws, in coordinates where its length counts in
posterior deviations. Its variance is the mean squared distance from its mean over many steps. Twice
the draws take twice the time and have half the variance, so variance × time says what a kind of
draws is worth. Candidates take turns.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from references import cases
from timing import seconds

import bbalpha as bb
from bbalpha.engine.noise import KINDS

PROBLEMS = ("autoregression", "logistic", "hierarchical")
ALPHAS = (0.0, 0.5)
NUM_SAMPLES = 128  # enough to match the 31 parameters of the largest
NUM_STEPS = 200
KEY = jax.random.key(0)


def main():
    print(f"| problem | α | | {' | '.join(KINDS)} |\n|---|---|---|{'---|' * len(KINDS)}")
    for name in PROBLEMS:
        for alpha in ALPHAS:
            for what, values in figures(cases.REFERENCES[name], alpha).items():
                cells = " | ".join(f"{value:.2g}" for value in values)
                print(f"| {name} | {alpha:g} | {what} | {cells} |", flush=True)


def figures(problem, alpha):
    """Length of the noise, time of a gradient, and variance × time relative to independent."""
    settings = {"alpha": alpha, "family": bb.FullGaussian, "key": KEY}
    fitted = bb.fit(problem.log_likelihood, problem.params, problem.data, **settings)
    candidates = {kind: gradients(problem, fitted, kind) for kind in KINDS}
    times = seconds(candidates)
    variances = {kind: variance(candidate()) for kind, candidate in candidates.items()}
    products = {kind: variances[kind] * times[kind] for kind in KINDS}
    return {
        "length of the noise": [math.sqrt(variances[kind]) for kind in KINDS],
        "ms per gradient": [1e3 * times[kind] / NUM_STEPS for kind in KINDS],
        "variance × time": [products[kind] / products["independent"] for kind in KINDS],
    }


def gradients(problem, fitted, kind):
    """A function without arguments: the gradients of many steps, in one program."""
    state = bb.init(
        problem.log_likelihood,
        problem.params,
        num_data=problem.num_data,
        key=KEY,
        alpha=float(fitted.alpha),
        family=fitted.q,
        optimizer=bb.natural_gradients(1.0),
        num_samples=NUM_SAMPLES,
        draws=kind,
    )
    data = jax.tree.map(jnp.asarray, problem.data)

    def of_step(state, data, step):
        def energy(noise):
            return bb.alpha_energy(
                problem.log_likelihood,
                fitted.q,
                fitted.prior,
                data,
                noise,
                alpha=state.alpha,
                num_data=state.num_data,
                layout=fitted.layout,
            )

        noise = state.noise_at(step)
        path = (1 - state.alpha / state.num_data) * jax.grad(energy)(noise)
        return fitted.q.natural_gradient(noise, path, fitted.prior)[1]

    @jax.jit
    def of_steps(state, data):
        return jax.lax.map(lambda step: of_step(state, data, step), jnp.arange(NUM_STEPS))

    return lambda: of_steps(state, data)


def variance(found):
    """The mean squared distance of the gradients from their mean."""
    leaves = [np.asarray(leaf, float).reshape(NUM_STEPS, -1) for leaf in jax.tree.leaves(found)]
    return np.var(np.concatenate(leaves, axis=1), axis=0, ddof=1).sum()


if __name__ == "__main__":
    main()
