"""Summaries of q in the units of the model: means, variances, quantiles, and a table of them.

Parameters without a transform have the moments of q. If a transform acts on a single Gaussian
number, moments are computed by Gauss–Hermite quadrature, and quantiles exactly, by transforming
those of the Gaussian. If a transform mixes several numbers, or q is not Gaussian, both are
estimated from draws, which are always the same.
"""

import dataclasses
import math
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from bbalpha.distributions import (
    CappedGaussian,
    DiagonalGaussian,
    Distribution,
    FullGaussian,
)
from bbalpha.engine import threefry
from bbalpha.engine.draws import chunk_of_draws, map_draws
from bbalpha.engine.layout import Layout, name_of
from bbalpha.low_rank import LowRankGaussian

NUM_DRAWS = 2**14  # the error of their mean is 0.8 % of a deviation
LEAST_DRAWS, DRAWN_NUMBERS = 1000, 2**26  # fewer draws for many parameters, to stay at 256 MiB
NUM_NODES = 64
FARTHEST_NODE = 12.0  # in deviations; beyond it, weights underflow in single precision
LEVELS = (0.05, 0.95)
NORMAL_QUANTILE = 1.6448536269514722  # of level 0.95
MOST_ROWS = 100
GAUSSIANS = (CappedGaussian, DiagonalGaussian, FullGaussian, LowRankGaussian)


class SummaryRow(NamedTuple):
    """A row of a summary: the name of a number, such as `weights[0]`, and four figures."""

    name: str
    mean: float
    deviation: float
    lower: float
    upper: float


@dataclasses.dataclass(frozen=True, repr=False)
class Summary:
    """The mean, deviation, and 5 % and 95 % quantiles of every parameter, as trees like `params`.

    `print` shows a table with one line per number or, if there are more than a hundred, per array.

    Attributes:
        mean: expectations under q.
        deviation: standard deviations.
        lower: 5 % quantiles.
        upper: 95 % quantiles.
        layout: the names and shapes of the parameters.

    >>> q = bb.DiagonalGaussian(jnp.array([1.0, -2.0, 0.0]), jnp.log(jnp.array([0.01, 0.04, 0.25])))
    >>> layout = bb.Layout.of(
    ...     {"weights": jnp.zeros(2), "width": jnp.ones(())}, transforms={"width": bb.positive}
    ... )
    >>> scalar = jnp.zeros(())
    >>> summary = bb.Posterior(q, q, None, scalar, scalar, scalar, layout).summary()
    >>> print(summary)
                 mean  deviation     5 %    95 %
    weights[0]   1.00       0.10    0.84    1.16
    weights[1]  -2.00       0.20   -2.33   -1.67
    width        1.13       0.60    0.44    2.28
    >>> print(f"{summary.upper['width']:.3f} = exp(0.5 × 1.645)")
    2.276 = exp(0.5 × 1.645)
    """

    mean: PyTree
    deviation: PyTree
    lower: PyTree
    upper: PyTree
    layout: Layout

    @property
    def rows(self) -> list[SummaryRow]:
        """One row per number, in the order of the parameters."""
        rows = []
        for path, columns in zip(self.layout.paths, self._columns(), strict=True):
            for index in np.ndindex(columns[0].shape):
                rows.append(SummaryRow(name_of(path, index), *(float(x[index]) for x in columns)))
        return rows

    def __str__(self) -> str:
        num_numbers = sum(columns[0].size for columns in self._columns())
        is_short = num_numbers <= MOST_ROWS
        lines = [_line(row) for row in self.rows] if is_short else self._lines_of_arrays()
        table = _aligned([("", "mean", "deviation", "5 %", "95 %"), *lines[:MOST_ROWS]])
        if len(lines) > MOST_ROWS:
            table += f"\n… and {len(lines) - MOST_ROWS:,} more arrays"
        if not is_short:
            table += "\nArrays: the range of their means and the median of their deviations."
        return table

    __repr__ = __str__

    def _columns(self) -> list[list[np.ndarray]]:
        """Mean, deviation, lower and upper quantile of each leaf."""
        trees = (self.mean, self.deviation, self.lower, self.upper)
        leaves = [self.layout.structure.flatten_up_to(tree) for tree in trees]
        return [[np.asarray(leaf) for leaf in columns] for columns in zip(*leaves, strict=True)]

    def _lines_of_arrays(self) -> list[tuple[str, ...]]:
        lines = []
        for path, columns in zip(self.layout.paths, self._columns(), strict=True):
            mean, deviation = columns[:2]
            if mean.size == 1:
                lines.append(_line(SummaryRow(name_of(path, ()), *(x.item() for x in columns))))
            elif mean.size > 1:
                typical = float(np.median(deviation))
                span = " to ".join(_number(float(x), typical) for x in (mean.min(), mean.max()))
                shape = " × ".join(map(str, mean.shape))
                lines.append((f"{name_of(path, ())} ({shape})", span, _number(typical, typical)))
        return lines


def mean_of(q: Distribution, layout: Layout) -> PyTree:
    """The mean of every parameter under q, in the tree of the model."""
    if not layout.is_constrained:
        return layout.unflatten(q.mean)
    return layout.tree(_moments(q, layout)[0])


def variance_of(q: Distribution, layout: Layout) -> PyTree:
    """The variance of every parameter under q, in the tree of the model."""
    if not layout.is_constrained:
        return layout.unflatten(q.variance)
    return layout.tree(_moments(q, layout)[1])


def summary_of(q: Distribution, layout: Layout) -> Summary:
    """The summary of q in the tree of the model."""
    mean, variance = mean_of(q, layout), variance_of(q, layout)
    lower, upper = map(layout.tree, _quantiles(q, layout))
    trees = (mean, jax.tree.map(jnp.sqrt, variance), lower, upper)
    mean, deviation, lower, upper = jax.tree.map(np.asarray, trees)
    return Summary(mean, deviation, lower, upper, layout)


def _moments(q: Distribution, layout: Layout) -> tuple[list[Array], list[Array]]:
    """The means and the variances of each leaf."""
    means, variances = layout.pieces(q.mean), layout.pieces(q.variance)
    is_drawn = tuple(
        transform is not None and not _is_gaussian(q, transform) for transform in layout.transforms
    )
    draws = iter(_draws(q, layout, is_drawn))
    for place, transform in enumerate(layout.transforms):
        if is_drawn[place]:
            values = next(draws)
            moments = jnp.mean(values, axis=0), jnp.var(values, axis=0)
        elif transform is not None:
            moments = _integrated(transform, means[place], variances[place])
        else:
            continue
        means[place], variances[place] = moments
    return means, variances


def _quantiles(q: Distribution, layout: Layout) -> tuple[list[Any], list[Any]]:
    """The 5 % and the 95 % quantiles of each leaf."""
    is_drawn = tuple(not _is_gaussian(q, transform) for transform in layout.transforms)
    draws = iter(_draws(q, layout, is_drawn))
    means, variances = layout.pieces(q.mean), layout.pieces(q.variance)
    lower, upper = [], []
    for place, transform in enumerate(layout.transforms):
        if is_drawn[place]:
            ends = jnp.asarray(np.quantile(np.asarray(next(draws)), LEVELS, axis=0))
        else:
            width = NORMAL_QUANTILE * jnp.sqrt(variances[place])
            ends = jnp.stack([means[place] - width, means[place] + width])
            if transform is not None:
                ends = jax.vmap(transform.forward)(ends)
        # A transform may be decreasing, too.
        lower.append(ends.min(axis=0))
        upper.append(ends.max(axis=0))
    return lower, upper


def _is_gaussian(q: Distribution, transform: Any) -> bool:
    """Whether each value is Gaussian, or depends on a single Gaussian number."""
    return isinstance(q, GAUSSIANS) and (
        transform is None or getattr(transform, "elementwise", False)
    )


@partial(jax.jit, static_argnames="transform")
def _integrated(
    transform: Any, mean: Float[Array, "..."], variance: Float[Array, "..."]
) -> tuple[Array, Array]:
    """Mean and variance of a transform of Gaussian numbers, by quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NUM_NODES)
    is_near = np.abs(nodes) < FARTHEST_NODE
    nodes = jnp.asarray(nodes[is_near], mean.dtype)
    weights = jnp.asarray(weights[is_near] / weights.sum(), mean.dtype)
    values = jax.vmap(lambda node: transform.forward(mean + node * jnp.sqrt(variance)))(nodes)
    center = jnp.tensordot(weights, values, axes=1)
    return center, jnp.tensordot(weights, jnp.square(values - center[None]), axes=1)


def _draws(
    q: Distribution, layout: Layout, is_drawn: tuple[bool, ...]
) -> list[Float[Array, "draws ..."]]:
    """Draws of some of the leaves; always the same draws."""
    if not any(is_drawn):
        return []
    num_drawn = sum(size for size, drawn in zip(layout.sizes, is_drawn, strict=True) if drawn)
    num_draws = min(NUM_DRAWS, max(LEAST_DRAWS, DRAWN_NUMBERS // max(1, num_drawn)))
    return _drawn_leaves(q, layout, is_drawn, num_draws)


@eqx.filter_jit
def _drawn_leaves(
    q: Distribution, layout: Layout, is_drawn: tuple[bool, ...], num_draws: int
) -> list[Float[Array, "draws ..."]]:
    def some_leaves(params: Float[Array, " params"], _: Array) -> list[Array]:
        leaves = layout.structure.flatten_up_to(layout.unflatten(params))
        return [leaf for leaf, drawn in zip(leaves, is_drawn, strict=True) if drawn]

    keys = threefry.consecutive(jax.random.key(0, impl="threefry2x32"), num_draws)
    return map_draws(some_leaves, q, keys, chunk_of_draws(layout.size, 0, num_draws))


def _line(row: SummaryRow) -> tuple[str, ...]:
    return row.name, *(_number(x, row.deviation) for x in row[1:])


def _number(value: float, deviation: float) -> str:
    """A number to two digits of its deviation."""
    if not (math.isfinite(deviation) and deviation > 0):
        return f"{value:.4g}"
    digits = 1 - math.floor(math.log10(deviation))
    return f"{value:.{max(digits, 0)}f}" if abs(digits) <= 8 else f"{value:.3e}"


def _aligned(lines: list[tuple[str, ...]]) -> str:
    """Lines of a table: names to the left, numbers to the right."""
    widths = [max(len(line[j]) for line in lines if len(line) > j) for j in range(len(lines[0]))]
    padded = (
        [
            cell.rjust(width) if j else cell.ljust(width)
            for j, (cell, width) in enumerate(zip(line, widths, strict=False))
        ]
        for line in lines
    )
    return "\n".join("  ".join(cells).rstrip() for cells in padded)
