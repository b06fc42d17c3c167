"""Diagnostics: how far q is from the exact posterior, and how noisy the fit was.

`Posterior.diagnose` calls this file. Draws of q, the same for all data, are compared with the exact
posterior (`importance`). They are also split into groups as large as the draws of one step of the
fit, and the groups are compared with each other.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int, Key, PyTree

from bbalpha.energy import LogLikelihood, alpha_energy
from bbalpha.engine import threefry
from bbalpha.engine.checks import check_counts
from bbalpha.engine.draws import chunk_of_draws
from bbalpha.importance import (
    Draws,
    Fitted,
    effective_size,
    highest_pareto_k,
    pareto_smoothed,
    weighted_sum,
)

CLOSE_PARETO_K = 0.5  # Yao et al., 2018: below it the weights have a finite variance
CLOSE_EFFICIENCY = 0.9  # 1/(1 + χ²), χ² the divergence of the posterior from q
FEWEST_EFFECTIVE_DRAWS = 10  # Table 4: from ten draws on, the bias is small
LARGEST_BIAS = 0.1  # in posterior deviations
LARGEST_BIAS_RATIO = 0.1  # bias over deviation: a smaller one shows only after averaging 100 steps
LARGEST_STANDARD_ERROR = 1.0  # nats; Kass & Raftery, 1995: smaller differences mean nothing
OUTLIER = 3.0  # nats beyond log N: with Gaussian noise, in fewer than 1 of 100 data sets

ZERO = 1e-8  # smaller powers equal variational Bayes up to rounding, in double precision
GROUPS_PER_BLOCK = 10
FEWEST_GROUPS = 4  # two blocks of two
LEFT_OUT = 100  # number of the worst-fitted data points, which are left out one by one
LISTED = 5

Shape = tuple[int, int, int]  # draws in all, groups in a block, draws in a group


class Check(NamedTuple):
    """A line of a diagnosis: what was checked, what was found, and whether that is good."""

    name: str
    value: str
    passed: bool
    verdict: str
    threshold: str


@dataclass(frozen=True)
class Diagnosis:
    """The result of `posterior.diagnose`; `print` shows it as a table of `checks`.

    Attributes:
        alpha: The power α of the fit.
        num_samples: Number of draws that the diagnosis used.
        fit_num_samples: K, the draws per step of the fit.
        pareto_k: k̂ of the weights of the exact posterior against q: high if q is too narrow. Lower
            is better.
        efficiency: Effective draws of the exact posterior per draw of q, at most 1: low if q is too
            narrow or too wide. Higher is better.
        effective_draws: For each data point, how many of the K draws effectively contribute to the
            energy: the mean of 1 / Σₖ wₙₖ², where the weights wₙₖ ∝ (p(xₙ|θₖ)/f(θₖ))^α sum to 1.
        gradient_bias: Length of the bias of the energy's gradient with K draws.
        gradient_deviation: Length of the standard deviation of that gradient.
        in_posterior_deviations: Whether these two lengths are in posterior deviations; otherwise
            they are root mean squares over the numbers that make up q.
        energy: The energy on all data, with all draws; lower is better.
        energy_standard_error: The Monte Carlo error of the energy.
        leave_one_out: For each data point, its approximate log predictive density when it is left
            out; higher is better. It is log E_q[p(xₙ|θ)/f(θ)] − log E_q[1/f(θ)], the prediction of
            q without one site. For the hundred lowest it is PSIS-LOO, wherever its own k̂ allows.
    """

    alpha: float
    num_samples: int
    fit_num_samples: int
    pareto_k: float
    efficiency: float
    effective_draws: Float64[np.ndarray, " rows"]
    gradient_bias: float
    gradient_deviation: float
    in_posterior_deviations: bool
    energy: float
    energy_standard_error: float
    leave_one_out: Float64[np.ndarray, " rows"]

    @property
    def worst(self) -> tuple[int, ...]:
        """The rows that fit worst, at most five, the worst first."""
        return tuple(np.argsort(self.leave_one_out, kind="stable")[:LISTED].tolist())

    @property
    def outliers(self) -> tuple[int, ...]:
        """Rows that fit so badly that Gaussian noise hardly explains it, the worst first."""
        order = np.argsort(self.leave_one_out, kind="stable")
        is_low = self.leave_one_out[order] < np.median(self.leave_one_out) - self._surprise
        return tuple(order[is_low].tolist())

    @property
    def checks(self) -> tuple[Check, ...]:
        """The lines of the table."""
        return (
            self._closeness(),
            self._draws_per_datum(),
            self._gradient(),
            self._energy(),
            self._fit_of_data(),
        )

    def __str__(self) -> str:
        num_rows = len(self.leave_one_out)
        lines = [f"q at α = {self.alpha:g}, {num_rows:,} rows, {self.num_samples:,} draws", ""]
        for name, value, passed, verdict, threshold in self.checks:
            lines += [f"{name:27}{value:41}{'✓' if passed else '✗'} {verdict}"]
            lines += [f"    {threshold}"]
        listed = ", ".join(f"{row} ({self.leave_one_out[row]:.2f})" for row in self.worst)
        return "\n".join([*lines, f"{'worst-fitted rows':27}{listed}"])

    def _closeness(self) -> Check:
        limit = highest_pareto_k(self.num_samples)
        close, passed = min(CLOSE_PARETO_K, limit), self.pareto_k <= limit
        verdict = "reweight to read off parameters" if passed else "far off: trust no parameters"
        if self.pareto_k <= close and self.efficiency >= CLOSE_EFFICIENCY:
            verdict = "close"
        return Check(
            "q against the posterior",
            f"Pareto k {self.pareto_k:.2f}, efficiency {self.efficiency:.0%}",
            passed,
            verdict,
            f"close: k ≤ {close:.2g} and {CLOSE_EFFICIENCY:.0%} (Yao et al. 2018); reweighting "
            f"works: k ≤ {limit:.2g} (Vehtari et al. 2024)",
        )

    def _draws_per_datum(self) -> Check:
        low, median = np.min(self.effective_draws), np.median(self.effective_draws)
        # Fewer draws than the threshold are the user's choice; here only their weights count.
        passed = bool(low >= min(FEWEST_EFFECTIVE_DRAWS, self.fit_num_samples))
        return Check(
            "effective draws per datum",
            f"lowest {low:.1f}, median {median:.1f} of {self.fit_num_samples}",
            passed,
            "enough" if passed else "too few: fit with more draws",
            f"at least {FEWEST_EFFECTIVE_DRAWS}, from where the bias is small (BB-α paper, Table "
            "4)",
        )

    def _gradient(self) -> Check:
        limit = LARGEST_BIAS_RATIO * self.gradient_deviation
        rule = f"{LARGEST_BIAS_RATIO:g} deviations, lost in the noise of 100 averaged steps"
        if self.in_posterior_deviations:
            limit = LARGEST_BIAS
            rule = f"{LARGEST_BIAS:g}, in posterior deviations (length of the natural gradient)"
        passed = self.gradient_bias <= limit
        return Check(
            "gradient of the energy",
            f"bias {self.gradient_bias:.2g}, deviation {self.gradient_deviation:.2g}",
            passed,
            "negligible bias" if passed else "biased: fit with more draws",
            f"bias up to {rule}",
        )

    def _energy(self) -> Check:
        passed = self.energy_standard_error <= LARGEST_STANDARD_ERROR
        return Check(
            "energy",
            f"{self.energy:.2f} ± {self.energy_standard_error:.2g}",
            passed,
            "precise enough to compare fits" if passed else "too noisy to compare fits",
            f"error up to {LARGEST_STANDARD_ERROR:g} nat; less is not worth a mention (Kass & "
            "Raftery 1995)",
        )

    def _fit_of_data(self) -> Check:
        num_outliers, low = len(self.outliers), np.min(self.leave_one_out)
        gap = np.median(self.leave_one_out) - low
        found = f"{num_outliers} outlier{'s' if num_outliers > 1 else ''}: look at the rows below"
        return Check(
            "leave-one-out density",
            f"lowest {low:.2f}, {gap:.1f} below the median",
            num_outliers == 0,
            found if num_outliers else "no outliers",
            f"up to log N + {OUTLIER:g} = {self._surprise:.1f} below (Gaussian noise exceeds it in "
            "1 of 100 data sets)",
        )

    @property
    def _surprise(self) -> float:
        """How far below the median a score must lie to be surprising among N scores."""
        return math.log(len(self.leave_one_out)) + OUTLIER


def diagnose(draws: Draws, size: int) -> Diagnosis:
    """The diagnosis of q for steps of `size` draws; see `Posterior.diagnose`."""
    fitted, num_samples = draws.fitted, draws.num_samples
    check_counts(fit_num_samples=size)
    if num_samples < FEWEST_GROUPS * size:
        raise ValueError(
            f"num_samples must be at least {FEWEST_GROUPS} times fit_num_samples, to compare "
            f"groups of that size; got num_samples={num_samples} with fit_num_samples={size}."
        )
    alpha, log_ratios = float(fitted.alpha), draws.log_prior_ratios()  # log p₀(θₖ)/q(θₖ)
    log_site = -log_ratios[:, None] / float(fitted.num_data)  # log f(θₖ)
    energy, influence = 0.0, np.zeros(num_samples)
    effective, scores = [], []
    for log_likelihoods, rows in draws.log_likelihoods():
        weights = draws.row_weights[rows]
        log_ratios += weighted_sum(log_likelihoods, weights)
        values = log_likelihoods - log_site  # log p(xₙ|θₖ) − log f(θₖ)
        means, slopes = power_means(values, alpha)
        energy -= weights @ means
        influence -= weighted_sum(slopes, weights)
        effective.append(effective_draws_of(values, alpha, size))
        scores.append(power_means(values, 1.0)[0] - power_means(-log_site, 1.0)[0])
    log_weights, pareto_k = pareto_smoothed(log_ratios)
    bias, deviation = _gradient_errors(draws, size)
    return Diagnosis(
        alpha=alpha,
        num_samples=num_samples,
        fit_num_samples=size,
        pareto_k=pareto_k,
        efficiency=effective_size(np.exp(log_weights)) / num_samples,
        effective_draws=np.concatenate(effective),
        gradient_bias=bias,
        gradient_deviation=deviation,
        in_posterior_deviations=hasattr(fitted.q, "natural_gradient"),
        energy=float(energy),
        energy_standard_error=float(np.std(influence, ddof=1) / math.sqrt(num_samples)),
        leave_one_out=_left_out(draws, np.concatenate(scores)),
    )


def power_means(
    values: Float64[np.ndarray, "draws rows"], alpha: float
) -> tuple[Float64[np.ndarray, " rows"], Float64[np.ndarray, "draws rows"]]:
    """M_α over the draws, and the influence of each draw on it times the number of draws."""
    if abs(alpha) < ZERO:
        means = values.mean(axis=0)
        return means, values - means
    largest = np.max(alpha * values, axis=0)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    powers = np.exp(alpha * values - largest)
    mean = powers.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (largest + np.log(mean)) / alpha, (powers / mean - 1) / alpha


def effective_draws_of(
    values: Float64[np.ndarray, "draws rows"], alpha: float, size: int
) -> Float64[np.ndarray, " rows"]:
    """The effective number of draws 1 / Σₖ wₙₖ² of each datum, averaged over groups of `size`."""
    num_groups = len(values) // size
    exponents = alpha * values[: num_groups * size].reshape(num_groups, size, -1)
    largest = exponents.max(axis=1, keepdims=True)
    weights = np.exp(exponents - np.where(np.isfinite(largest), largest, 0.0))
    squares = np.maximum(np.square(weights).sum(axis=1), np.finfo(float).tiny)
    return (np.square(weights.sum(axis=1)) / squares).mean(axis=0)


def _left_out(draws: Draws, scores: Float64[np.ndarray, " rows"]) -> Float64[np.ndarray, " rows"]:
    """The scores, with PSIS-LOO in place of the lowest.

    The cavity behind the scores lacks an average site. To recognize a datum that pulls q towards
    itself, one must divide out its own likelihood, with the weights 1/p(xₙ|θₖ).
    """
    scores, lowest = scores.copy(), np.sort(np.argsort(scores, kind="stable")[:LEFT_OUT])
    limit = highest_pareto_k(draws.num_samples)
    for values, rows in draws.log_likelihoods(lowest):
        for row, of_draws in zip(rows, values.T, strict=True):
            if np.isfinite(of_draws).all():
                log_weights, pareto_k = pareto_smoothed(-of_draws)
                score = np.logaddexp.reduce(log_weights + of_draws)
                scores[row] = score if pareto_k <= limit else scores[row]
    return scores


def _gradient_errors(draws: Draws, size: int) -> tuple[float, float]:
    """The lengths of the bias and of the deviation of the gradient with `size` draws.

    The draws are split into blocks of several groups. In a block, the bias is estimated by the mean
    gradient of its groups minus the gradient with all its draws, which has only 1/groups of the
    bias. Both use the same draws, so most of the noise cancels. The squared length of the bias is
    the mean of the products of two different blocks, in which the rest of the noise averages out.
    """
    fitted, num_groups = draws.fitted, draws.num_samples // size
    per_block = min(GROUPS_PER_BLOCK, num_groups // 2)
    num_blocks = num_groups // per_block
    shape = (draws.num_samples, per_block, size)
    biases, variances = [], []
    for block in range(num_blocks):
        of_groups, of_block = _summed_gradients(draws, block, shape)
        mean = jax.tree.map(lambda leaf: leaf.mean(axis=0), of_groups)
        bias = jax.tree.map(lambda a, b: (a - b) / (1 - 1 / per_block), mean, of_block)
        around = jax.tree.map(lambda leaf, mean: leaf - mean, of_groups, mean)
        biases.append(bias)
        variances.append(_squared_lengths(fitted, around).sum() / (per_block - 1))
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *biases)
    total = jax.tree.map(lambda leaf: leaf.sum(axis=0, keepdims=True), stacked)
    products = _squared_lengths(fitted, total)[0] - _squared_lengths(fitted, stacked).sum()
    squared_bias = np.maximum(0.0, products / (num_blocks * (num_blocks - 1)))  # NaN stays NaN
    return math.sqrt(squared_bias), math.sqrt(np.mean(variances))


def _summed_gradients(draws: Draws, block: int, shape: Shape) -> tuple[PyTree, PyTree]:
    """The gradients of all groups and of the whole block, on all rows, in double precision."""
    total = None
    for data, weights, _ in draws.chunks(shape[1] * shape[2]):
        arrays = data, jnp.asarray(weights), jnp.asarray(block), draws.key
        found = _gradients(draws.fitted, draws.log_likelihood, *arrays, shape)
        found = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), found)
        total = found if total is None else jax.tree.map(np.add, total, found)
    assert total is not None  # there is at least one row
    return total


@eqx.filter_jit
def _gradients(
    fitted: Fitted,
    log_likelihood: LogLikelihood,
    rows: PyTree,
    weights: Float[Array, " rows"],
    block: Int[Array, ""],
    key: Key[Array, ""],
    shape: Shape,
) -> tuple[PyTree, PyTree]:
    num_samples, per_block, size = shape

    def gradient(keys: Key[Array, " draws"]) -> PyTree:
        def energy(q: PyTree, noise: Float[Array, "draws noise"]) -> Float[Array, ""]:
            return alpha_energy(
                log_likelihood,
                q,
                fitted.prior,
                rows,
                noise,
                alpha=fitted.alpha,
                num_data=fitted.num_data,
                layout=fitted.layout,
                hyperparams=fitted.hyperparams,
                weights=weights,
                sample_chunk=chunk_of_draws(fitted.layout.size, len(weights), len(keys)),
            )

        q: Any = fitted.q
        noise = jax.vmap(q.noise)(keys)
        if not hasattr(q, "natural_gradient"):
            return jax.grad(energy)(q, noise)
        path = (1 - fitted.alpha / fitted.num_data) * jax.grad(energy, 1)(q, noise)
        return q.natural_gradient(noise, path, fitted.prior)[1]  # its coordinates

    keys = threefry.consecutive(key, num_samples)
    keys = jax.lax.dynamic_slice_in_dim(keys, block * per_block * size, per_block * size)
    return jax.lax.map(gradient, keys.reshape(per_block, size)), gradient(keys)


def _squared_lengths(fitted: Fitted, gradients: PyTree) -> Float64[np.ndarray, " gradients"]:
    """gᵀ F⁻¹ g of each gradient if q has a natural gradient, else its mean square."""
    leaves = [leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(gradients)]
    squares = np.square(np.concatenate(leaves, axis=1))
    return squares.sum(axis=1) if hasattr(fitted.q, "natural_gradient") else squares.mean(axis=1)
