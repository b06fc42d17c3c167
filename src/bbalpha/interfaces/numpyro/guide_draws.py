"""Draws of a guide trained by `SVI`, with the same diagnostics as bbalpha's own posteriors."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpyro import handlers

from bbalpha.diagnostics import (
    FEWEST_GROUPS,
    GROUPS_PER_BLOCK,
    Diagnosis,
    effective_draws_of,
    power_means,
)
from bbalpha.engine.checks import check_counts
from bbalpha.engine.layout import Layout
from bbalpha.importance import (
    FEWEST_DRAWS,
    effective_size,
    pareto_smoothed,
    trusted_weights,
    weighted_sum,
)
from bbalpha.interfaces.numpyro.loss import BBAlphaELBO, OfDraws, split
from bbalpha.interfaces.numpyro.structure import Structure, with_all_rows
from bbalpha.interfaces.numpyro.traces import SEEDED_APART, Program
from bbalpha.posterior import FitInfo
from bbalpha.reweighting import Reweighted, warn_of_errors
from bbalpha.summaries import LEVELS, NUM_DRAWS, Summary

ENERGY_DRAWS = 1024
CHUNK = 512  # draws in memory at once

Sites = dict[str, Float[Array, "..."]]


@dataclass(frozen=True)
class GuideDraws:
    """Draws of a guide that `SVI` has trained."""

    loss: BBAlphaELBO
    program: Program
    structure: Structure
    params: dict[str, Any]
    info: FitInfo

    @property
    def alpha(self) -> Any:
        """The power."""
        return self.loss.alpha

    @property
    def energy(self) -> Float[Array, ""]:
        """The energy on all data, always with the same thousand draws."""
        return self._energy

    @cached_property
    def _energy(self) -> Float[Array, ""]:
        draws = self._of_draws(*split(jax.random.key(0), ENERGY_DRAWS))
        return self.loss.energy(draws, self.params)

    def sample(self, num_samples: int, key: Array) -> Sites:
        """Draws of the latent sites, for all indices of their plates."""
        program, latent = self._whole, self.structure.latent
        keys, plate_key = split(key, num_samples)

        def of_key(key: Array) -> Sites:
            _, guide_key = jax.random.split(key)  # as the loss draws them
            guide = handlers.seed(handlers.seed(program.guide, plate_key, SEEDED_APART), guide_key)
            guide = handlers.substitute(guide, data=self.params)
            trace = handlers.trace(guide).get_trace(*program.args, **program.kwargs)
            return {name: trace[name]["value"] for name in latent}

        @jax.jit
        def of_keys(keys: Array) -> Sites:
            if num_samples <= CHUNK:
                return jax.vmap(of_key)(keys)
            return jax.lax.map(of_key, keys, batch_size=CHUNK)

        return of_keys(keys)

    def summary(self) -> Summary:
        """Mean, deviation and quantiles of the latent sites, always from the same draws."""
        return summary_of_draws(self.sample(NUM_DRAWS, jax.random.key(0)))

    def reweighted(self, key: Array, num_samples: int) -> Reweighted:
        """The exact posterior, as weighted draws."""
        _check_draws(num_samples)
        log_ratios, _, weights, without_data = self._in_double(key, num_samples)
        total = weighted_sum(log_ratios, weights) + without_data
        found = Reweighted(self.sample(num_samples, key), *trusted_weights(total))
        warn_of_errors(found)
        return found

    def diagnose(self, key: Array, num_samples: int) -> Diagnosis:
        """How far q is from the exact posterior."""
        size, alpha = self.loss.num_particles, self._last_alpha
        _check_draws(num_samples, size)
        values, log_likelihoods, weights, without_data = self._in_double(key, num_samples)
        means, slopes = power_means(values, alpha)
        influence = -weighted_sum(slopes, weights) - (without_data - without_data.mean())
        log_weights, pareto_k = pareto_smoothed(weighted_sum(values, weights) + without_data)
        without_likelihood, _ = power_means(values - log_likelihoods, 1.0)  # log E[1/f]
        bias, deviation = self._gradient_errors(key, num_samples)
        return Diagnosis(
            alpha=alpha,
            num_samples=num_samples,
            fit_num_samples=size,
            pareto_k=pareto_k,
            efficiency=effective_size(np.exp(log_weights)) / num_samples,
            effective_draws=effective_draws_of(values, alpha, size),
            gradient_bias=bias,
            gradient_deviation=deviation,
            in_posterior_deviations=False,
            energy=float(-weights @ means - without_data.mean()),
            energy_standard_error=float(np.std(influence, ddof=1) / math.sqrt(num_samples)),
            leave_one_out=power_means(values, 1.0)[0] - without_likelihood,
        )

    @property
    def _whole(self) -> Program:
        return with_all_rows(self.program)

    @property
    def _last_alpha(self) -> float:
        alpha: Any = self.alpha
        at_the_end: Any = alpha(max(self.info.num_steps - 1, 0)) if callable(alpha) else alpha
        return float(at_the_end)

    def _of_draws(self, keys: Array, plate_key: Array) -> OfDraws:
        """Log-ratios and log-likelihoods of all data, with one chunk of draws in memory."""
        settings: dict[str, Any] = {"particle_chunk": CHUNK, "num_data": self.loss.num_data}
        loss = BBAlphaELBO(self._last_alpha, len(keys), **settings)

        @jax.jit
        def of_draws(keys: Array, plate_key: Array, params: dict[str, Any]) -> OfDraws:
            return loss.of_draws(keys, plate_key, params, self._whole)

        return of_draws(keys, plate_key, self.params)

    def _in_double(self, key: Array, num_samples: int) -> tuple[np.ndarray, ...]:
        """Log-ratios, log-likelihoods, weights and ratios without data, in double precision."""
        found = self._of_draws(*split(key, num_samples))
        return tuple(
            np.asarray(leaf, np.float64)
            for leaf in (found.log_ratios, found.log_likelihoods, found.weights, found.without_data)
        )

    def _gradient_errors(self, key: Array, num_samples: int) -> tuple[float, float]:
        """Root mean squares, over the parameters of q, of the gradient's bias and deviation.

        As in `bbalpha.diagnostics`, the bias is the mean gradient over the groups of a block minus
        the gradient of all draws of the block. To average out the noise, its square is estimated by
        products of two different blocks.
        """
        size = self.loss.num_particles
        keys, plate_key = split(key, num_samples)
        num_groups = num_samples // size
        per_block = min(GROUPS_PER_BLOCK, num_groups // 2)
        num_blocks = num_groups // per_block
        blocks = keys[: num_blocks * per_block * size].reshape(num_blocks, per_block, size)
        numbers = {name: of for name, of in self.params.items() if _is_number(of)}

        def gradient(keys: Array) -> Array:
            def energy(numbers: dict[str, Any]) -> Array:
                params = self.params | numbers
                draws = self.loss.of_draws(keys, plate_key, params, self._whole)
                return self.loss.energy(draws, params)

            found = jax.tree.leaves(jax.grad(energy)(numbers))
            return jnp.concatenate([leaf.ravel() for leaf in found])

        @jax.jit
        def of_block(keys: Array) -> tuple[Array, Array]:
            return jax.lax.map(gradient, keys), gradient(keys.ravel())

        biases, variances = [], []
        for block in blocks:
            groups, whole = (np.asarray(leaf, np.float64) for leaf in of_block(block))
            biases.append((groups.mean(axis=0) - whole) / (1 - 1 / per_block))
            variances.append(np.var(groups, axis=0, ddof=1).mean())
        total = np.sum(biases, axis=0)
        products = np.mean(total**2) - sum(np.mean(bias**2) for bias in biases)
        squared_bias = max(0.0, products / (num_blocks * (num_blocks - 1)))
        return math.sqrt(squared_bias), math.sqrt(np.mean(variances))


def summary_of_draws(draws: Sites) -> Summary:
    """Mean, deviation and quantiles of draws."""
    draws = jax.tree.map(np.asarray, draws)
    mean, deviation, lower, upper = (
        jax.tree.map(figure, draws)
        for figure in (
            lambda of: of.mean(axis=0),
            lambda of: of.std(axis=0),
            lambda of: np.quantile(of, LEVELS[0], axis=0),
            lambda of: np.quantile(of, LEVELS[1], axis=0),
        )
    )
    return Summary(mean, deviation, lower, upper, Layout.of(mean))


def _check_draws(num_samples: int, size: int = 1) -> None:
    """Raise unless there are enough draws for weights, and for groups of a step's size."""
    check_counts(num_samples=num_samples)
    fewest = max(FEWEST_DRAWS, FEWEST_GROUPS * size)
    if num_samples < fewest:
        raise ValueError(
            f"num_samples must be at least {fewest}, to fit a distribution to the largest weights "
            f"and to compare groups of draws; got num_samples={num_samples}."
        )


def _is_number(tree: Any) -> bool:
    return all(jnp.issubdtype(jnp.result_type(leaf), jnp.inexact) for leaf in jax.tree.leaves(tree))
