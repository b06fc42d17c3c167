"""The incomplete beta function for many x at once; fast if many x share the same a and b.

`count_probabilities` uses it for the tails of the negative binomial distribution.
"""

import numpy as np

from bbalpha.engine.probabilities import MILLS_SCALE, Numbers, chebyshev_sum, library

SINGLE = (
    16,
    np.linspace(-3.5, 4.5, 64),
)  # nodes in θ and in v. Error 3e-7 from b = 0.3 on, 5e-5 at 0.05
DOUBLE = 32, np.linspace(-5.0, 6.0, 201)  # error 3e-11 for b ≥ 0.1
SERIES_END = 0.5  # below this, −log(1 − z) − z is computed as a series
TERMS_SINGLE, TERMS_DOUBLE = 7, 16


def beta_ratio(a: Numbers, b: Numbers, s: Numbers) -> Numbers:
    """Return I_x(a, b) / (x^a (1−x)^b / B(a, b)) at x = (1 − s) a/(a + b), for s between 0 and 1.

    It equals J = ∫₀^∞ exp(−av) (1 − x(1 − exp(−v)))^(−a−b) dv. With m = ab/(a + b) and
    k = 0.35 a/√m, √m J (1 + ks) is so smooth in θ = (1 − s)/(1 + ks) that a short Chebyshev series
    through a few numerically integrated values gives all others. If a thousand values of s share a
    and b, `jax.scipy.special.betainc` takes several times as long.

    Args:
        a: Positive numbers.
        b: Positive numbers of the same shape.
        s: Numbers whose shape a and b broadcast to.
    """
    numpy = library(s)
    num_nodes, grid = DOUBLE if s.dtype == np.float64 else SINGLE
    root = numpy.sqrt(1 / (1 / a + 1 / b))  # √m
    k = MILLS_SCALE * a / root
    shared = a[None], b[None], root[None]
    angles = np.pi * (np.arange(num_nodes) + 0.5) / num_nodes
    ones = (1,) * a.ndim
    theta = numpy.asarray((1 + np.cos(angles)) / 2, s.dtype).reshape(-1, *ones)
    at_nodes = (1 - theta) / (1 + k[None] * theta)
    values = root[None] * _integral(*shared, at_nodes, grid) * (1 + k[None] * at_nodes)
    order = np.arange(num_nodes)[:, None]
    transform = np.where(order == 0, 1, 2) / num_nodes * np.cos(order * angles)
    coefficients = numpy.tensordot(numpy.asarray(transform, s.dtype), values, 1)
    ratio = chebyshev_sum(list(coefficients), 2 * (1 - s) / (1 + k * s) - 1)
    return ratio / (root * (1 + k * s))


def _integral(a: Numbers, b: Numbers, root: Numbers, s: Numbers, grid: np.ndarray) -> Numbers:
    """J by the double-exponential rule; the leading axis is that of s."""
    nodes = np.exp(grid - np.exp(-grid))
    weights = nodes * (1 + np.exp(-grid)) * (grid[1] - grid[0])
    numpy = library(s)
    v, weights = (numpy.asarray(x, s.dtype).reshape(-1, *(1,) * s.ndim) for x in (nodes, weights))
    a, b, s, rate = a[None], b[None], s[None], (a * s + root)[None]
    return numpy.sum(weights * numpy.exp(_exponent(a, b, s, v / rate)) / rate, axis=0)


def _exponent(a: Numbers, b: Numbers, s: Numbers, v: Numbers) -> Numbers:
    """−av − (a + b) log(1 − xu) with u = 1 − exp(−v), from terms that do not cancel.

    With q = (1 − x)u/(1 − xu) and ψ(z) = −log(1 − z) − z, it is
    −u (as + bx²u)/(1 − xu) − a ψ(q) + b ψ(xu).
    """
    numpy = library(v)
    x, rest = (1 - s) * a / (a + b), (b + a * s) / (a + b)  # x and 1 − x
    u = -numpy.expm1(-v)
    left = rest + x * numpy.exp(-v)  # 1 − xu
    q, xu, log_left = rest * u / left, x * u, numpy.log(left)
    slope = u * (a * s + b * x * xu) / left
    return b * _excess(xu, -log_left) - a * _excess(q, v + log_left) - slope


def _excess(z: Numbers, minus_log: Numbers) -> Numbers:
    """ψ(z) = −log(1 − z) − z; for small z by the series of 2 artanh(w), w = z/(2 − z)."""
    numpy = library(z)
    small = numpy.minimum(z, SERIES_END)
    w = small / (2 - small)
    square, series = w * w, numpy.zeros_like(w)
    for term in range(TERMS_DOUBLE if z.dtype == np.float64 else TERMS_SINGLE, 0, -1):
        series = (series + 2 / (2 * term + 1)) * square
    return numpy.where(z < SERIES_END, small * w + w * series, minus_log - z)
