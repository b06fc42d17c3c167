"""References that methods are compared with: the exact posterior, or draws of it.

With Gaussian noise, the posterior has a closed form. Otherwise, draws come from NUTS, if NumPyro is
installed, or from EP's posterior with importance weights, whose k̂ tells whether they can be
trusted. Weights also give the evidence; for NUTS, they are those of a Gaussian with the moments of
its draws.
"""

import dataclasses
import importlib.util
import math
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64, Key

from bbalpha.distributions import FullGaussian
from bbalpha.engine.clock import Compiling
from bbalpha.engine.layout import Layout
from bbalpha.importance import (
    Draws,
    highest_pareto_k,
    log_importance_ratios,
    pareto_smoothed,
)
from bbalpha.likelihoods import Gaussian
from bbalpha.message_passing.arguments import Problem
from bbalpha.message_passing.comparison import NONE, ComparisonRow
from bbalpha.message_passing.conjugate import LinearRegression
from bbalpha.message_passing.projections import full_gaussian
from bbalpha.message_passing.scores import scores_of_draws, scores_under
from bbalpha.message_passing.sweeps import power_ep
from bbalpha.message_passing.tilted import Factors
from bbalpha.posterior import Posterior
from bbalpha.reweighting import Reweighted

KINDS = ("auto", "exact", "nuts", "importance")
NUM_CHAINS, NUM_WARMUP, NUM_DRAWS = 4, 500, 1000
HIGHEST_R_HAT = 1.01  # Vehtari et al., 2021
DENSE = 100  # most parameters for which NUTS learns all correlations
MOST_WEIGHTED, FEWEST_WEIGHTED = 2**14, 2**12  # draws with importance weights;
DRAWS_TIMES_SIZE = 2**26  # there are fewer for many rows or parameters
WIDER = 1.1  # factor on the deviations of a proposal, because posteriors have heavier tails

Draw = Float64[np.ndarray, "draws params"]


def reference_row(
    asked: Any, problem: Problem, held_out: Problem | None, key: Key[Array, ""]
) -> ComparisonRow:
    """The requested reference, timed; call this in a context with 64 bits.

    Args:
        asked: one of `KINDS`, a posterior, reweighted draws, an array of draws, or None.
        problem: the model and the training rows.
        held_out: the model and new rows, if any.
        key: randomness of the draws.

    Raises:
        ValueError: if there is no such reference for this model.
        ImportError: if NUTS was asked for by name and NumPyro is not installed.
        TypeError: if the argument is of the wrong kind.
    """
    compiling, began = Compiling(), time.perf_counter()
    if asked is None:
        row = absent(problem, "none.")
    elif isinstance(asked, str):
        row = _by_name(asked, problem, held_out, key)
    else:
        row = _given(asked, problem, held_out)
    seconds = time.perf_counter() - began
    row = dataclasses.replace(row, compiling=compiling.seconds)
    return dataclasses.replace(row, seconds=max(0.0, seconds - row.compiling))


def absent(problem: Problem, reason: str) -> ComparisonRow:
    """The row of a missing reference, with the reason why it is missing."""
    nothing = np.full(problem.inputs.shape[1], math.nan)
    return _row(NONE, (nothing, nothing), math.nan, math.nan, reason, converged=False)


def log_likelihood_of(problem: Problem) -> Callable[[Array, tuple[Array, Any]], Array]:
    """The log-likelihood in the form for `fit`: a function of parameters and a batch of rows."""

    def log_likelihood(params: Array, batch: tuple[Array, Any]) -> Array:
        inputs, targets = batch
        f = inputs @ params
        factors = Factors(problem.log_likelihood, targets, jnp.zeros_like(f), problem.hyperparams)
        return factors.log_prob(f[None])[0]

    return log_likelihood


def _by_name(
    kind: str, problem: Problem, held_out: Problem | None, key: Key[Array, ""]
) -> ComparisonRow:
    if kind not in KINDS:
        raise ValueError(
            "reference must be 'auto', 'exact', 'nuts', 'importance', a posterior, draws or None; "
            f"got reference={kind!r}."
        )
    is_exact = isinstance(problem.log_likelihood, Gaussian)
    has_numpyro = importlib.util.find_spec("numpyro") is not None
    if kind == "exact" and not is_exact:
        raise ValueError("reference must not be 'exact' unless log_likelihood is bb.Gaussian.")
    if kind == "nuts" and not has_numpyro:
        raise ImportError("reference='nuts' needs NumPyro: pip install numpyro.")
    if kind == "exact" or (kind == "auto" and is_exact):
        return _exact(problem, held_out)
    if kind == "nuts" or (kind == "auto" and has_numpyro):
        return _nuts(problem, held_out, key)
    try:
        return _importance(problem, held_out, key)
    except ValueError as error:
        if kind == "importance":
            raise
        return absent(problem, f"none, because {error} With NumPyro installed, NUTS is used.")


def _exact(problem: Problem, held_out: Problem | None) -> ComparisonRow:
    """The closed form."""
    noise = float(jnp.exp(jnp.ravel(problem.log_likelihood.log_variance)[0]))
    inputs, targets = np.asarray(problem.inputs), np.asarray(problem.targets)
    model = LinearRegression.of(inputs, targets.reshape(-1), problem.prior)
    score = math.nan
    if held_out is not None:
        mean, deviation = model.projected(np.asarray(held_out.inputs), noise)
        squares = np.square(np.asarray(held_out.targets).reshape(-1) - mean)
        variance = noise + deviation**2
        score = float(-0.5 * np.mean(np.log(2 * np.pi * variance) + squares / variance))
    remark = "exact, because the noise is Gaussian."
    return _row("exact", model.moments(noise), model.log_evidence(noise), score, remark)


def _nuts(problem: Problem, held_out: Problem | None, key: Key[Array, ""]) -> ComparisonRow:
    """Draws from NUTS by NumPyro, and the evidence from importance weights."""
    for_chains, for_weights = jax.random.split(key)
    chains, r_hat, size = _chains(problem, for_chains)
    draws = chains.reshape(-1, chains.shape[-1])
    words = (
        f"NUTS by NumPyro, {NUM_CHAINS} chains of {NUM_DRAWS:,} draws, R-hat at most {r_hat:.3f}, "
        f"whose means are off by about {1 / math.sqrt(size):.1g} deviations."
    )
    if r_hat > HIGHEST_R_HAT:
        words += f" R-hat should be below {HIGHEST_R_HAT}: do not trust it."
    proposal = _gaussian(problem, draws.mean(axis=0), WIDER**2 * np.cov(draws.T))
    ratios, pareto_k = _log_ratios(proposal, problem, for_weights)
    trusted = pareto_k <= highest_pareto_k(len(ratios))
    log_evidence = _log_mean_exp(ratios) if trusted else math.nan
    row = _of_draws("nuts", draws, None, held_out, words)
    return dataclasses.replace(
        row, log_evidence=log_evidence, converged=bool(r_hat <= HIGHEST_R_HAT)
    )


def _chains(problem: Problem, key: Key[Array, ""]) -> tuple[np.ndarray, float, float]:
    """Draws of shape (chains, draws, parameters), the largest R-hat, the smallest effective size.

    NUTS runs in coordinates in which the prior is standard.
    """
    from numpyro.diagnostics import (  # pyright: ignore[reportMissingImports]
        effective_sample_size,
        split_gelman_rubin,
    )
    from numpyro.infer import MCMC, NUTS  # pyright: ignore[reportMissingImports]

    prior, size = problem.prior, problem.inputs.shape[1]
    log_likelihood = log_likelihood_of(problem)

    def energy(z: Array) -> Array:
        params = prior.mean + prior.spread(z)
        fits = log_likelihood(params, (problem.inputs, problem.targets))
        return 0.5 * jnp.sum(jnp.square(z)) - jnp.sum(fits)

    for_start, for_chains = jax.random.split(key)
    # Scaled so that the spread of initial projections does not grow with the number of columns.
    start = jax.random.normal(for_start, (NUM_CHAINS, size)) / math.sqrt(size)
    kernel = NUTS(potential_fn=energy, dense_mass=size <= DENSE)
    with jax.numpy_rank_promotion("allow"):
        sampler = MCMC(
            kernel,
            num_warmup=NUM_WARMUP,
            num_samples=NUM_DRAWS,
            num_chains=NUM_CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )
        sampler.run(for_chains, init_params=start)
        moves = sampler.get_samples(group_by_chain=True)
        params = jax.vmap(jax.vmap(lambda z: prior.mean + prior.spread(z)))(moves)
    chains = np.asarray(params, np.float64)
    r_hat = np.max(split_gelman_rubin(chains))
    return chains, float(r_hat), float(np.min(effective_sample_size(chains)))


def _importance(problem: Problem, held_out: Problem | None, key: Key[Array, ""]) -> ComparisonRow:
    """Draws of EP's posterior, made a little wider, with importance weights.

    Raises:
        ValueError: if the weights cannot be trusted, or EP has no posterior.
    """
    proposal = power_ep(
        problem.log_likelihood,
        problem.inputs,
        problem.targets,
        prior=problem.prior_argument,
        hyperparams=problem.hyperparams,
    )
    wider: Any = eqx.tree_at(lambda q: q.log_scale, proposal.q, replace_fn=_widen)
    proposal = dataclasses.replace(proposal, q=wider)
    ratios, pareto_k = _log_ratios(proposal, problem, key)
    if not pareto_k <= highest_pareto_k(len(ratios)):
        raise ValueError(
            f"importance weights of EP's posterior are too uneven (Pareto k̂ = {pareto_k:.2f})."
        )
    weights = np.exp(pareto_smoothed(ratios)[0])
    draws = np.asarray(proposal.sample(len(ratios), key=key), np.float64)
    mean, deviation, error = _corrected(proposal, draws, weights)
    words = (
        f"{len(ratios):,} draws of EP's posterior with importance weights (Pareto k̂ = "
        f"{pareto_k:.2f}), whose means are off by about {error:.1g} deviations."
    )
    row = _of_draws("importance", draws, weights, held_out, words)
    return dataclasses.replace(
        row, mean=mean, deviation=deviation, log_evidence=_log_mean_exp(ratios)
    )


def _widen(log_scale: Array) -> Array:
    return log_scale + math.log(WIDER)


def _corrected(
    proposal: Posterior, draws: Draw, weights: Float64[np.ndarray, " draws"]
) -> tuple[np.ndarray, np.ndarray, float]:
    """Means and deviations, and the Monte Carlo error of the means in deviations.

    The moments of q are known exactly. The weights estimate only the difference from them, so the
    noise of the draws cancels if q is close to the posterior.
    """
    center = np.asarray(proposal.q.mean)
    centered, excess = draws - center, weights - 1 / len(weights)
    shift = excess @ centered
    variance = np.asarray(proposal.q.variance) + excess @ np.square(centered) - np.square(shift)
    deviation = np.sqrt(np.maximum(variance, 0.0))
    error = np.sqrt(np.square(excess) @ np.square(centered)) / deviation
    return center + shift, deviation, float(error.max())


def _log_ratios(
    proposal: Posterior, problem: Problem, key: Key[Array, ""]
) -> tuple[np.ndarray, float]:
    """The logarithms of importance ratios, and the k̂ of their tail."""
    share = DRAWS_TIMES_SIZE // max(problem.inputs.shape)
    num_draws = min(MOST_WEIGHTED, max(FEWEST_WEIGHTED, share))
    fixed = dataclasses.replace(proposal, hyperparams=None)  # they are in the log-likelihood
    data = (problem.inputs, problem.targets)
    ratios = log_importance_ratios(
        Draws.of(fixed, log_likelihood_of(problem), data, key, num_draws)
    )
    return ratios, pareto_smoothed(ratios)[1]


def _gaussian(problem: Problem, mean: np.ndarray, covariance: np.ndarray) -> Posterior:
    """A posterior with these moments."""
    cholesky = jnp.asarray(np.linalg.cholesky(np.atleast_2d(covariance)))
    q: FullGaussian = full_gaussian(jnp.asarray(mean), cholesky)
    unknown, num_data = jnp.array(math.nan), jnp.array(float(problem.num_data))
    layout = Layout.of(jax.ShapeDtypeStruct(mean.shape, np.float64))
    return Posterior(q, problem.prior.distribution, None, unknown, num_data, unknown, layout)


def _given(reference: Any, problem: Problem, held_out: Problem | None) -> ComparisonRow:
    """A reference provided by the user."""
    words = "given."
    if isinstance(reference, Posterior):
        _check_size(np.shape(reference.q.mean), problem)
        q = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), reference.q)
        score = math.nan if held_out is None else float(scores_under(q, held_out).mean())
        moments = np.asarray(q.mean), np.sqrt(np.asarray(q.variance))
        return _row("given", moments, -float(reference.energy), score, words)
    weights = None
    if isinstance(reference, Reweighted):
        reference, weights = reference.draws, reference.weights
    if not hasattr(reference, "shape"):
        raise TypeError(
            "reference must be 'auto', 'exact', 'nuts', 'importance', a posterior, draws or None; "
            f"got a {type(reference).__name__}."
        )
    draws = np.asarray(reference, np.float64)
    if draws.ndim != 2:
        size = problem.inputs.shape[1]
        raise ValueError(
            f"reference must be draws of shape (draws, {size}); got shape {draws.shape}."
        )
    _check_size(draws.shape[1:], problem)
    return _of_draws("given", draws, weights, held_out, words)


def _check_size(shape: tuple[int, ...], problem: Problem) -> None:
    size = problem.inputs.shape[1]
    if shape != (size,):
        raise ValueError(
            f"reference must be over the {size} columns of inputs, one each; got shape {shape}."
        )


def _of_draws(
    name: str,
    draws: Draw,
    weights: Float64[np.ndarray, " draws"] | None,
    held_out: Problem | None,
    remark: str,
) -> ComparisonRow:
    """The row of weighted draws."""
    weights = np.full(len(draws), 1 / len(draws)) if weights is None else weights
    mean = weights @ draws
    deviation = np.sqrt(weights @ np.square(draws - mean))
    score = math.nan
    if held_out is not None:
        score = float(scores_of_draws(draws, weights, held_out).mean())
    return _row(name, (mean, deviation), math.nan, score, remark)


def _row(
    name: str,
    moments: tuple[np.ndarray, np.ndarray],
    log_evidence: float,
    held_out: float,
    remark: str,
    converged: bool = True,
) -> ComparisonRow:
    numbers = (log_evidence, held_out, math.nan, math.nan)
    return ComparisonRow(name, math.nan, *moments, *numbers, converged, remark)


def _log_mean_exp(values: np.ndarray) -> float:
    largest = values.max()
    return float(largest + np.log(np.mean(np.exp(values - largest))))
