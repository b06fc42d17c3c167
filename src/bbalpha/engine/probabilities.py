"""Distribution functions that are accurate to rounding where library versions are not.

They take NumPy and jax arrays alike. This file needs only NumPy, so that exported models can
predict without jax.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

Numbers = Any  # an array of NumPy or jax, or a tracer

# Mills' ratio R(t) = w·p(2w − 1) with w = 1/(1 + 0.35 t): polynomials p, highest power first, that
# interpolate scipy's erfcx at Chebyshev nodes. The scale 0.35 keeps p short. Errors: 4e-8, 3e-14.
MILLS_SCALE = 0.35
MILLS_SINGLE = (
    5.265184866e-05,
    -5.695389246e-05,
    -3.545285294e-04,
    6.089732735e-04,
    1.764052698e-03,
    -4.428198755e-03,
    -1.281375654e-02,
    2.565720272e-02,
    1.782194085e-01,
    4.298760429e-01,
    6.347892507e-01,
)
MILLS_DOUBLE = (
    4.8084878124074151e-08,
    -3.3894452901990408e-08,
    -3.5328090584441461e-07,
    4.5833574656643961e-07,
    9.9998121736904601e-07,
    -2.7252209203867708e-06,
    2.0959689443355501e-07,
    9.3534194006085196e-06,
    -1.5302050257433198e-05,
    -1.5526485494093885e-05,
    8.9445134629970321e-05,
    -4.4198280104742399e-05,
    -3.8916479350408005e-04,
    6.0382866748307168e-04,
    1.7787334256895138e-03,
    -4.4272789220099361e-03,
    -1.2816334679738283e-02,
    2.5657147434729431e-02,
    1.7821953651629749e-01,
    4.2987604360337872e-01,
    6.3478925072255588e-01,
)
LOG_TWO_PI = math.log(2 * math.pi)
NODES_SINGLE, NODES_DOUBLE = 14, 24  # along each axis of a table. Errors: 2e-8, 5e-12
LARGEST_DF = 1e18  # from here on, Student's t is Gaussian to rounding; 1e36 is finite in float32
QUADRATURE_GRID = np.linspace(-5.0, 6.0, 201)  # for integrals to 1e-14


def library(x: Numbers) -> Any:
    """The library of an array, `numpy` or `jax.numpy`."""
    return x.__array_namespace__()


def log_ndtr_and_slope(x: Numbers) -> tuple[Numbers, Numbers]:
    """Return log Φ(x) and its derivative φ(x)/Φ(x)."""
    numpy = library(x)
    ratio = _mills_ratio(numpy.abs(x))
    log_density = -0.5 * (numpy.square(x) + LOG_TWO_PI)  # log φ(x)
    density = numpy.exp(log_density)
    smaller = density * ratio  # Φ(−|x|)
    scaled = numpy.where(x < 0, ratio, 1 - smaller)  # Φ(x)/φ(x) below 0, Φ(x) above
    lost = 1 - scaled - smaller  # rounded away from 1 − Φ(−x): the digits of log Φ near 0
    value = numpy.log(scaled) + numpy.where(x < 0, log_density, lost)
    slope = numpy.where(x < 0, 1, density) / scaled
    return value, slope


def ndtr(x: Numbers) -> Numbers:
    """Return Φ(x), with a small relative error even far below 0; five times as fast as jax's."""
    numpy = library(x)
    tail = numpy.exp(-0.5 * (numpy.square(x) + LOG_TWO_PI)) * _mills_ratio(magnitude(x))
    return numpy.where(x < 0, tail, 1 - tail)


def student_t_cdf(x: Numbers, df: Numbers) -> Numbers:
    """Return P(T ≤ x) for Student's t with ν = `df` degrees of freedom, by a Mills-like ratio.

    P(T > t) = (1 + t²/ν)^(−ν/2) G(s),  s = t / √(ν + t²),
    G(s) = ∫₀^∞ (cosh v + s sinh v)^(−ν) dv, scaled to G(0) = ½. Divided by w = 1/(1 + ks), with
    k = 0.35 √(1 + ν), it is so smooth in s and ν that a small table suffices; as ν → ∞ it becomes
    Mills' ratio. `jax.scipy.special.betainc` takes a hundred times as long.
    """
    numpy = library(x)
    df = numpy.minimum(df, LARGEST_DF)
    u = magnitude(x) / numpy.sqrt(df)
    larger = numpy.maximum(u, 1)  # so that u² does not overflow
    rest = numpy.square(numpy.minimum(u, 1) / larger)  # 1 + u² = larger² (1 + rest)
    log_kernel = -df * (numpy.log(larger) + 0.5 * numpy.log1p(rest))
    s, k = numpy.minimum(u, 1) / numpy.sqrt(1 + rest), MILLS_SCALE * numpy.sqrt(1 + df)
    (coefficients,) = tabulated(_student_t_table, 1 / numpy.sqrt(1 + df))
    ratio = chebyshev_sum(coefficients, 2 * (1 - s) / (1 + k * s) - 1) / (1 + k * s)
    tail = numpy.exp(log_kernel) * ratio
    return numpy.where(x < 0, tail, 1 - tail)


def _mills_ratio(t: Numbers) -> Numbers:
    """R(t) = Φ(−t)/φ(t) for t ≥ 0."""
    w = 1 / (1 + MILLS_SCALE * t)
    value = library(t).zeros_like(w)
    for coefficient in MILLS_DOUBLE if t.dtype == np.float64 else MILLS_SINGLE:
        value = value * (2 * w - 1) + coefficient
    return w * value


def magnitude(x: Numbers) -> Numbers:
    """|x|, with the derivative 1 rather than 0 at 0."""
    return library(x).where(x < 0, -x, x)


def tabulated(table: Callable[[int], np.ndarray], epsilon: Numbers) -> list[list[Numbers]]:
    """The polynomials in w at each ε, from a stack of tables of Chebyshev coefficients."""
    numpy = library(epsilon)
    stack = table(NODES_DOUBLE if epsilon.dtype == np.float64 else NODES_SINGLE)
    ones = (1,) * epsilon.ndim
    rows = [numpy.asarray(row, epsilon.dtype).reshape(*row.shape, *ones) for row in stack]
    polynomials = chebyshev_sum(rows, 2 * epsilon[None, None] - 1)
    return [list(polynomial) for polynomial in polynomials]


def chebyshev_sum(coefficients: Sequence[Numbers], x: Numbers) -> Numbers:
    """Σⱼ cⱼ Tⱼ(x) by Clenshaw's recurrence."""
    value, previous = coefficients[-1], library(x).zeros_like(coefficients[-1])
    for coefficient in coefficients[-2:0:-1]:
        value, previous = 2 * x * value - previous + coefficient, value
    return x * value - previous + coefficients[0]


@cache
def _student_t_table(num_nodes: int) -> np.ndarray:
    """G(s) / w at ν = 1/ε² − 1, with w = 1/(1 + ks) and θ = (1 − s) / (1 + ks)."""
    epsilon, theta = grid(num_nodes)
    df, k = 1 / epsilon**2 - 1, MILLS_SCALE / epsilon
    s = (1 - theta) / (1 + k * theta)

    def integral(s):
        rate = np.maximum(df * s, df * epsilon)
        return half_line_integral(
            lambda v: -df * (v + np.log1p((1 - s) / 2 * np.expm1(-2 * v))), rate
        )

    return chebyshev_series([0.5 * integral(s) / integral(0 * s) * (1 + k * s)])


def grid(num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Chebyshev nodes in [0, 1] for ε along the first axis and for θ along the second."""
    nodes = (1 + np.cos(np.pi * (np.arange(num_nodes) + 0.5) / num_nodes)) / 2
    return np.meshgrid(nodes, nodes, indexing="ij")


def half_line_integral(
    log_integrand: Callable[[np.ndarray], np.ndarray], rate: np.ndarray
) -> np.ndarray:
    """∫₀^∞ of a function that falls off like exp(−rate · v), by the double-exponential rule."""
    nodes = np.exp(QUADRATURE_GRID - np.exp(-QUADRATURE_GRID))
    weights = nodes * (1 + np.exp(-QUADRATURE_GRID)) * (QUADRATURE_GRID[1] - QUADRATURE_GRID[0])
    pairs = zip(weights, nodes, strict=True)
    return sum(weight * np.exp(log_integrand(node / rate)) for weight, node in pairs) / rate


def chebyshev_series(values: list[np.ndarray]) -> np.ndarray:
    """Coefficients [i, table, j] of Tᵢ(2ε − 1) Tⱼ(2θ − 1) from the values on the grid."""
    num_nodes = len(values[0])
    order = np.arange(num_nodes)[:, None]
    cosines = np.cos(np.pi * order * (np.arange(num_nodes) + 0.5) / num_nodes)
    transform = np.where(order == 0, 1, 2) / num_nodes * cosines
    return np.stack([transform @ table @ transform.T for table in values], axis=1)
