"""Probabilities of counts, for NumPy and jax arrays alike: Poisson and negative binomial."""

import math
from functools import cache

import numpy as np

from bbalpha.engine.beta_ratio import beta_ratio
from bbalpha.engine.probabilities import (
    LOG_TWO_PI,
    MILLS_SCALE,
    Numbers,
    chebyshev_series,
    chebyshev_sum,
    grid,
    half_line_integral,
    library,
    magnitude,
    tabulated,
)

STIRLING_START = 10.0  # from here on, Stirling's series with three corrections is exact to 1e-10
SERIES_START = 8.0  # from here on, four terms of Stirling's series are exact to 1e-11
LARGEST_COUNT = 1e12  # its third power is finite in float32
FAR = 40.0  # difference of logarithms from which exp(δ) − 1 is exp(δ); exp(2δ) is finite in float32
LARGEST_LOG_SIZE = 16.0  # log r; beyond it, the negative binomial is treated as Poisson
_log_gamma_of_number = np.frompyfunc(math.lgamma, 1, 1)


def poisson_log_height(counts: Numbers) -> Numbers:
    """Return the log-probability of each count y under its own rate λ = y: y log y − y − log y!.

    For large y these terms cancel, which in float32 costs a tenth of a nat at 10⁵; Stirling's
    series avoids them.
    """
    numpy = library(counts)
    y = numpy.maximum(counts, STIRLING_START)
    correction = (1 / 12 - (1 / 360 - 1 / (1260 * y**2)) / y**2) / y
    stirling = -0.5 * (LOG_TWO_PI + numpy.log(y)) - correction
    exact = (
        counts * numpy.log(numpy.maximum(counts, 1.0))
        - counts
        - log_gamma(numpy.minimum(counts, STIRLING_START) + 1)
    )
    return numpy.where(counts < STIRLING_START, exact, stirling)


def poisson_tails(counts: Numbers, log_rate: Numbers) -> tuple[Numbers, Numbers]:
    """Return P(Y ≤ y) and P(Y > y) for Y ~ Poisson(λ), the smaller one with a small relative error.

    With a = y + 1 and p(a) the probability of a, P(Y ≤ y) = a p(a) J where λ ≥ a, and
    P(Y > y) = a p(a) J where λ < a:
    J = ∫₀^∞ exp(−λv) (1 + v)^(a−1) dv  or  ∫₀^∞ exp(−aτ + λ (1 − exp(−τ))) dτ.
    As with `student_t_cdf`, √a J (1 + ks) with s = |λ/a − 1| and k = 0.35 √a is tabulated.
    """
    numpy = library(log_rate)
    a = numpy.maximum(numpy.floor(counts), 0) + 1
    delta = log_rate - numpy.log(a)
    excess = numpy.expm1(delta)  # λ/a − 1
    above = excess >= 0
    log_kernel = 0.5 * numpy.log(a) + poisson_log_height(a) + a * (delta - excess)  # log √a p(a)
    s, k = magnitude(excess), MILLS_SCALE * numpy.sqrt(a)
    place = numpy.where(above, 1, 1 - s) / (1 + k * s)
    both = zip(*tabulated(_poisson_table, 1 / numpy.sqrt(a)), strict=True)
    ratio = chebyshev_sum([numpy.where(above, *pair) for pair in both], 2 * place - 1) / (1 + k * s)
    tail = numpy.where(delta == -np.inf, 0, numpy.exp(log_kernel) * ratio)
    below_zero = counts < 0
    cdf = numpy.where(below_zero, 0, numpy.where(above, tail, 1 - tail))
    return cdf, numpy.where(below_zero, 1, numpy.where(above, 1 - tail, tail))


def negative_binomial_log_prob(counts: Numbers, log_size: Numbers, log_rate: Numbers) -> Numbers:
    """Return log p(y), as the height at λ = y minus the distance from it.

    log p(y) = log Γ(y + r) − log Γ(r) − log y! + r log(r/(r + λ)) + y log(λ/(r + λ)). In float32
    these terms would cancel, as for the Poisson distribution.
    """
    numpy = library(log_rate)
    size, total = numpy.exp(log_size), numpy.exp(log_size) + counts
    correction = _stirling_error(total) - _stirling_error(size)
    height = poisson_log_height(counts) + 0.5 * (log_size - numpy.log(total)) + correction
    return height + _distance(counts, size, log_size, log_rate)


def negative_binomial_tails(
    counts: Numbers, log_size: Numbers, log_rate: Numbers
) -> tuple[Numbers, Numbers]:
    """P(Y ≤ y) and P(Y > y), the smaller one with a small relative error.

    With a = y + 1 and x = λ/(r + λ), these are I_{1−x}(r, a) and I_x(a, r). The factor in front of
    the integral, x^a (1−x)^r / B(a, r), is a p(a).
    """
    numpy = library(log_rate)
    counts = numpy.floor(counts)
    a = numpy.clip(counts, 0, LARGEST_COUNT) + 1
    a, size = numpy.broadcast_arrays(a, numpy.exp(log_size))
    delta, logit = log_rate - numpy.log(a), log_rate - log_size
    above = delta >= 0
    away = numpy.where(above, -logit, logit)
    share = numpy.exp(-numpy.maximum(away, 0)) / (1 + numpy.exp(-numpy.abs(away)))
    distance = -numpy.expm1(-numpy.abs(delta)) * share
    ratio = numpy.where(above, beta_ratio(size, a, distance), beta_ratio(a, size, distance))
    tail = numpy.exp(negative_binomial_log_prob(a, log_size, log_rate) + numpy.log(a)) * ratio
    cdf, survival = numpy.where(above, tail, 1 - tail), numpy.where(above, 1 - tail, tail)
    return numpy.where(counts < 0, 0, cdf), numpy.where(counts < 0, 1, survival)


def _stirling_error(x: Numbers) -> Numbers:
    """Log Γ(x) minus Stirling's formula for it, (x − ½) log x − x + ½ log 2π."""
    numpy = library(x)
    large = numpy.maximum(x, SERIES_START)
    square = large**2
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * square)) / square) / square) / large
    small = numpy.minimum(x, SERIES_START)
    exact = log_gamma(small) - (small - 0.5) * numpy.log(small) + small - 0.5 * LOG_TWO_PI
    return numpy.where(x < SERIES_START, exact, series)


def _distance(counts: Numbers, size: Numbers, log_size: Numbers, log_rate: Numbers) -> Numbers:
    """The logarithm of p(y) at λ over that at λ = y, from terms of the size of yr/(y + r).

    −y log(1 + r (exp(−δ) − 1)/(y + r)) − r log(1 + y (exp(δ) − 1)/(y + r)), δ = log λ − log y;
    for y = 0 it is −r log(1 + λ/r).
    """
    numpy = library(log_rate)
    some = counts > 0
    delta = log_rate - numpy.where(some, numpy.log(numpy.maximum(counts, 1.0)), log_size)
    length = numpy.abs(delta)
    near = numpy.minimum(length, FAR)  # so that exp stays finite
    factor, change = numpy.exp(-near), numpy.expm1(-near)
    rises, total = delta > 0, counts + size
    share, other = (numpy.where(of, size, counts) / total for of in (rises, ~rises))
    less = share * change
    falling = numpy.where(less > -0.5, numpy.log1p(less), numpy.log(other + share * factor))
    rising = numpy.log1p(-other * change / factor) + (length - near)
    fewer, more = numpy.where(rises, falling, rising), numpy.where(rises, rising, falling)
    none = -size * (numpy.maximum(delta, 0) + numpy.log1p(factor))
    return numpy.where(some, -counts * fewer - size * more, none)


def log_gamma(x: Numbers) -> Numbers:
    """Log Γ(x) of positive numbers."""
    if library(x) is np:
        return np.asarray(_log_gamma_of_number(x), x.dtype)
    from jax.scipy.special import gammaln

    return gammaln(x)


@cache
def _poisson_table(num_nodes: int) -> np.ndarray:
    """√a J / w at a = 1/ε²: where λ ≥ a with θ = w, where λ < a with θ = (1 − s) / (1 + ks)."""
    epsilon, theta = grid(num_nodes)
    a, k = 1 / epsilon**2, MILLS_SCALE / epsilon
    rate = a * (1 + (1 / theta - 1) / k)
    above = half_line_integral(
        lambda v: -rate * v + (a - 1) * np.log1p(v), rate - a + 1 + np.sqrt(a)
    )
    s = (1 - theta) / (1 + k * theta)
    below = half_line_integral(lambda v: -a * (v + (1 - s) * np.expm1(-v)), a * s + np.sqrt(a))
    return chebyshev_series([above / (epsilon * theta), below / epsilon * (1 + k * s)])
