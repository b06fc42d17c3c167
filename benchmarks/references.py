"""Write tests/problems/references.json: what a perfect fit of each reference problem would return.

`python benchmarks/references.py` adds the problems that the file lacks; name some to make those
again. Everything is in double precision and independent of bbalpha's optimizers:

- the posterior, by NUTS (NumPyro), in closed form where the model is linear and Gaussian;
- the Gaussian with full covariance that minimizes the energy at α = 0 and at α = ½, by L-BFGS
  (scipy) on `bb.alpha_energy` with a large fixed set of draws. Two independent sets tell the error.
  Where the model is linear and Gaussian the energy is an integral in closed form.
"""

import argparse
import json
import math
import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
import scipy.stats
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS

import bbalpha as bb

# By its path, because `problems` is another module here.
PROBLEMS = Path(__file__).parents[1] / "tests" / "problems" / "references.py"
cases: Any = SourceFileLoader("reference_problems", str(PROBLEMS)).load_module()

ALPHAS = (0.0, 0.5)
NOISE_OF_LINEAR = {"linear": cases.LINEAR_NOISE, "ridge": cases.RIDGE_NOISE}  # deviations
NUM_CHAINS, NUM_WARMUP, NUM_DRAWS = 4, 2000, 10_000  # NUTS draws so many at a time
EFFECTIVE_SIZE = 10_000  # Monte Carlo errors of 1 % of a deviation
LOG2_DRAWS = 16  # of the energy at most, half of them mirrored from the other half
LOG2_RATIOS = 25  # draws times data at most: 256 MiB
SAMPLE_CHUNK = 256  # fits into the cache
GRADIENT_NORM = 1e-5  # where deviations of q are the unit
DIGITS = 6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", choices=[[], *cases.REFERENCES], help="make these again"
    )
    names = parser.parse_args().names
    found = json.loads(cases.ANSWERS.read_text())["problems"] if cases.ANSWERS.exists() else {}
    for name in names or [name for name in cases.REFERENCES if name not in found]:
        print(name, flush=True)
        found[name] = answers_of(name)
        write({name: found[name] for name in cases.REFERENCES if name in found})


def write(found, path=cases.ANSWERS, command="python benchmarks/references.py"):
    packages = ("jax", "numpy", "numpyro", "scikit-learn", "scipy")
    versions = {"python": platform.python_version()} | {name: version(name) for name in packages}
    record = {"command": command, "versions": versions, "problems": found}
    text = json.dumps(rounded(record), indent=1, ensure_ascii=False)
    path.write_text(on_one_line(text) + "\n")


def answers_of(name):
    model = Model.of(cases.REFERENCES[name])
    if name in NOISE_OF_LINEAR:
        mean, covariance = linear_posterior(model, NOISE_OF_LINEAR[name])
        facts = {"method": "closed form"}
    else:
        mean, covariance, facts = sampled_posterior(model)
    print("  posterior", facts, flush=True)
    answers = {
        "log_likelihood_at_start": model.log_likelihood(model.start).sum(),
        "posterior": summary(mean, covariance) | facts,
    }
    center = gaussian(mean, np.linalg.cholesky(covariance))
    for alpha in ALPHAS:
        answers[f"alpha={alpha:g}"] = optimum(model, NOISE_OF_LINEAR.get(name), alpha, center)
        facts = {key: answers[f"alpha={alpha:g}"][key] for key in ("energy", "errors")}
        print(f"  alpha={alpha:g}", facts, flush=True)
    return answers


@dataclass(frozen=True)
class Model:
    """A problem on the flat vector of its parameters, in double precision."""

    problem: cases.Problem
    layout: Any
    start: np.ndarray
    data: tuple

    @classmethod
    def of(cls, problem):
        params = jax.tree.map(lambda leaf: leaf.astype(np.float64), problem.params)
        layout = bb.Layout.of(params)
        data = tuple(
            leaf.astype(np.float64) if leaf.dtype.kind == "f" else leaf for leaf in problem.data
        )
        return cls(problem, layout, np.asarray(layout.flatten(params)), data)

    @property
    def prior(self):
        return bb.DiagonalGaussian(jnp.zeros(self.layout.size), jnp.zeros(self.layout.size))

    def log_likelihood(self, vector):
        return self.problem.log_likelihood(self.layout.unflatten(vector), self.data)

    def potential(self, vector):
        return -self.log_likelihood(vector).sum() - self.prior.log_prob(vector)


def linear_posterior(model, deviation):
    """The mean and covariance of a linear model with Gaussian noise."""
    inputs, targets = model.data
    precision = inputs.T @ inputs / deviation**2 + np.eye(inputs.shape[1])
    covariance = np.linalg.inv(precision)
    return covariance @ inputs.T @ targets / deviation**2, covariance


def sampled_posterior(model):
    """The mean and covariance by NUTS, and how well its chains agree."""
    random = np.random.default_rng(0)
    starts = model.start + 0.1 * random.normal(size=(NUM_CHAINS, model.layout.size))
    kernel = NUTS(potential_fn=model.potential, dense_mass=True)
    draws, facts = sampled(kernel, init_params=jnp.asarray(starts))
    draws = np.asarray(draws).reshape(-1, model.layout.size)
    return draws.mean(axis=0), np.cov(draws.T), facts


def sampled(kernel, **settings):
    """Draws of a NUTS kernel, with axes of chains and draws, and how well the chains agree."""
    mcmc = MCMC(
        kernel,
        num_warmup=NUM_WARMUP,
        num_samples=NUM_DRAWS,
        num_chains=NUM_CHAINS,
        chain_method="sequential",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0), **settings)
    draws = mcmc.get_samples(group_by_chain=True)
    while worst(min, effective_sample_size, draws) < EFFECTIVE_SIZE:
        mcmc.post_warmup_state = mcmc.last_state
        mcmc.run(mcmc.post_warmup_state.rng_key)
        more = mcmc.get_samples(group_by_chain=True)
        draws = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), draws, more)
    num_chains, num_draws = jax.tree.leaves(draws)[0].shape[:2]
    return draws, {
        "method": "NUTS",
        "num_draws": num_chains * num_draws,
        "largest_r_hat": worst(max, split_gelman_rubin, draws),
        "smallest_effective_size": worst(min, effective_sample_size, draws),
    }


def worst(choose, diagnostic, draws):
    """The largest or smallest value of a diagnostic over all parameters."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(draws)]
    return choose(choose(np.ravel(diagnostic(leaf))) for leaf in leaves)


def optimum(model, deviation, alpha, center):
    """The full Gaussian of lowest energy, with the differences between two sets of draws.

    The energy is exact, and the differences are zero, if the model is linear with Gaussian noise of
    the given deviation.
    """
    energies = [sampled_energy(model, alpha, seed) for seed in (0, 1)]
    start = bb.FullGaussian.init(jnp.asarray(model.start), model.prior)
    start_energy = np.mean([float(energy(start)) for energy in energies])
    if deviation is not None:
        energies = [exact_energy(model, deviation, alpha)]
    found = [minimized(energy, center) for energy in energies]
    means = np.array([q.mean for q, _ in found])
    deviations = np.sqrt([q.variance for q, _ in found])
    return {
        "means": means.mean(axis=0),
        "deviations": deviations.mean(axis=0),
        "energy": np.mean(
            [float(energy(q)) for energy, (q, _) in zip(energies, found, strict=True)]
        ),
        "start_energy": start_energy,
        "errors": {
            "means": np.max(np.ptp(means, axis=0) / deviations.mean(axis=0)),  # in deviations
            "deviations": np.max(np.ptp(deviations, axis=0) / deviations.mean(axis=0)),
            "gradient_norm": max(norm for _, norm in found),
        },
    }


def sampled_energy(model, alpha, seed, log2_draws=LOG2_DRAWS):
    """The energy of q with fixed draws, in pairs ±ε and scaled to have covariance I.

    For linear models at α = 0 it is exact, because the energy is then quadratic in the draws.
    """
    sobol = scipy.stats.qmc.Sobol(model.layout.size, rng=np.random.default_rng(seed))
    log2_draws = min(log2_draws, LOG2_RATIOS - math.ceil(math.log2(model.problem.num_data)))
    half = scipy.stats.norm.ppf(sobol.random_base2(log2_draws - 1))
    half = np.linalg.solve(np.linalg.cholesky(half.T @ half / len(half)), half.T).T
    noise = jnp.asarray(np.concatenate([half, -half]))

    @jax.jit
    def energy(q):
        return bb.alpha_energy(
            model.problem.log_likelihood,
            q,
            model.prior,
            model.data,
            noise,
            alpha=alpha,
            num_data=model.problem.num_data,
            layout=model.layout,
            sample_chunk=SAMPLE_CHUNK,
        )

    return energy


def exact_energy(model, deviation, alpha):
    """The energy of q under linear models with Gaussian noise.

    With a = α/N and the cavity q^(1−a) p₀^a = Z N(θ; μ, V), datum n contributes
    (1/α) (log Z + log ∫ N(θ; μ, V) N(yₙ; xₙᵀθ, σ²)^α dθ), or its limit at α = 0.
    """
    inputs, targets = model.data
    num_data, num_params = inputs.shape
    noise_variance, share = deviation**2, alpha / num_data

    def variational(q):
        errors = jnp.square(targets - inputs @ q.mean) + jnp.square(inputs @ q.cholesky).sum(axis=1)
        log_likelihood = -0.5 * (errors / noise_variance + jnp.log(2 * jnp.pi * noise_variance))
        divergence = 0.5 * (q.variance + jnp.square(q.mean) - 1) - q.log_scale
        return divergence.sum() - log_likelihood.sum()

    def powered(q):
        inner = (1 - share) * jnp.eye(num_params) + share * q.covariance
        cavity = jnp.linalg.solve(inner, q.covariance)  # V
        cavity_mean = (1 - share) * jnp.linalg.solve(inner, q.mean)  # μ
        log_z = (
            share * (q.log_scale.sum() - 0.5 * q.mean @ cavity_mean)
            - 0.5 * jnp.linalg.slogdet(inner)[1]
        )
        widened = noise_variance + alpha * jnp.sum(inputs @ cavity * inputs, axis=1)
        log_integrals = -0.5 * (
            alpha * jnp.square(targets - inputs @ cavity_mean) / widened
            + jnp.log(widened / noise_variance)
            + alpha * jnp.log(2 * jnp.pi * noise_variance)
        )
        return -jnp.sum(log_z + log_integrals) / alpha

    return jax.jit(variational if alpha == 0 else powered)


def minimized(energy: Callable, center):
    """The full Gaussian of lowest energy and the norm of the gradient there.

    The coordinates δ and L of θ = m + C (δ + L ε) make the minimum round where q = N(m, C Cᵀ) is
    near it, so the search is repeated around what it has found until the gradient is small.
    """
    size = center.mean.size
    below = np.tril_indices(size, -1)

    def moved(coordinates, center):
        shift, log_diagonal, strict = jnp.split(coordinates, [size, 2 * size])
        factor = jnp.diag(jnp.exp(log_diagonal)).at[below].set(strict)
        return gaussian(center.mean + center.cholesky @ shift, center.cholesky @ factor)

    slope = jax.jit(jax.value_and_grad(lambda x, center: energy(moved(x, center))))
    start = np.zeros(2 * size + len(below[0]))
    for _ in range(10):
        options = {"maxiter": 200, "maxcor": 20, "ftol": 1e-15, "gtol": 0.1 * GRADIENT_NORM}
        found = scipy.optimize.minimize(
            lambda x, center: [np.asarray(part) for part in slope(x, center)],
            start,
            args=(center,),
            jac=True,
            method="L-BFGS-B",
            options=options,
        )
        center = moved(found.x, center)
        norm = np.linalg.norm(slope(start, center)[1])
        print(f"    energy {found.fun:.6f}, gradient {norm:.1e}, {found.nfev} calls", flush=True)
        if norm < GRADIENT_NORM:
            break
    return center, norm


def gaussian(mean, cholesky):
    """The Gaussian with this mean and lower factor of the covariance."""
    scale = jnp.diag(jnp.asarray(cholesky))
    lower = jnp.tril(jnp.asarray(cholesky) / scale[:, None], -1)
    return bb.FullGaussian(jnp.asarray(mean), jnp.log(scale), lower)


def summary(mean, covariance):
    return {"means": mean, "deviations": np.sqrt(np.diag(covariance))}


def rounded(value):
    """A tree of numbers with few digits, ready for JSON."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, str | int):
        return value
    if np.ndim(value) > 0:
        return [rounded(item) for item in np.asarray(value).tolist()] if len(value) else []
    return float(f"{float(value):.{DIGITS}g}")


def on_one_line(text):
    """JSON text with every list of numbers on one line."""
    pieces = text.split("[")
    for index, piece in enumerate(pieces[1:], start=1):
        numbers, rest = piece.split("]", 1)
        pieces[index] = " ".join(numbers.split()) + "]" + rest
    return "[".join(pieces)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
