"""`AlphaCurve`: how well left-out training rows are predicted at several powers α.

`tuning` computes the scores. The curve says which power, or which mixture of powers, to use.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from bbalpha.interfaces.limits import LARGEST_ALPHA

MOST_POWERS = 100  # in a curve that is read from a file
FEWEST_ROWS = 10  # needed to choose a power
LEAST_SHARE = 0.01  # of a power in a stacked model; smaller shares are dropped
NUM_UPDATES, TOLERANCE = 2000, 1e-7  # of the shares; stop when so few nats per row can be gained
ROUNDING = 1e-6  # allowed in the sum of the shares

PerRow = Float64[np.ndarray, " rows"]


@dataclass(frozen=True)
class AlphaCurve:
    """Leave-one-out scores at several powers, in nats per row; `print` shows a table.

    Attributes:
        alphas: The powers, in ascending order.
        scores: The mean score at each power, from `leave_one_out`; higher is better.
        standard_errors: The standard error of each score, as an estimate for new rows like these.
        behind: How far each score is behind the best.
        behind_errors: The standard error of each difference; it is smaller, because all powers are
            scored on the same rows.
        num_rows: Number of rows that were scored: those that can be left out without refitting.
        num_data: Number of data points that the training rows stand for: the sum of their weights.
        folds: If too few rows can, the number of folds in which rows were left out by refitting;
            otherwise 0.
        weights: The share of each power in a stacked model; empty if a single power was chosen.
        gain: How much better the stacked model predicts left-out rows than the best power does.

    >>> curve = bb.AlphaCurve(
    ...     alphas=(0.0, 0.5),
    ...     scores=(-1.21, -1.2),
    ...     standard_errors=(0.1, 0.1),
    ...     behind=(0.01, 0.0),
    ...     behind_errors=(0.02, 0.0),
    ...     num_rows=90,
    ...     num_data=100.0,
    ... )
    >>> curve.chosen, curve.reason
    (0.5, 'Left-out rows are predicted best, 0.010 ± 0.020 nats better than at α = 0.')
    """

    alphas: tuple[float, ...]
    scores: tuple[float, ...]
    standard_errors: tuple[float, ...]
    behind: tuple[float, ...]
    behind_errors: tuple[float, ...]
    num_rows: int
    num_data: float
    folds: int = 0
    weights: tuple[float, ...] = ()
    gain: float = 0.0

    @classmethod
    def of(
        cls,
        scores: Mapping[float, Any],
        weights: PerRow | None = None,
        folds: int = 0,
        num_data: float | None = None,
    ) -> "AlphaCurve":
        """The curve of these scores, which are of the same rows at every power.

        Args:
            scores: The score of each row, by power: finite log-densities of rows that are left out
                or held out.
            weights: How many data points each row stands for; by default 1.
            folds: The number of folds in which rows were left out by refitting, if any.
            num_data: Number of data points in the training rows; by default the sum of `weights`.

        Raises:
            ValueError: If the scores are not finite, or not of as many rows at every power.
        """
        alphas = tuple(sorted(scores))
        found, weights = _checked([scores[alpha] for alpha in alphas], weights)
        best = found[np.argmax(found @ weights)]
        means = mean_and_error(found, weights), mean_and_error(best - found, weights)
        num_data = float(weights.sum()) if num_data is None else num_data
        return cls(alphas, *means[0], *means[1], len(weights), num_data, folds)

    @classmethod
    def from_json(cls, described: Any) -> "AlphaCurve":
        """The curve that `to_json` described.

        Raises:
            ValueError: If the numbers cannot be those of a curve.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(described, dict) or sorted(described) != sorted(names):
            raise ValueError("alpha_curve does not have the fields of a curve.")
        *columns, num_rows, num_data, folds, weights, gain = (described[x] for x in names)
        if not all(isinstance(column, list) for column in (*columns, weights)):
            raise ValueError("alpha_curve does not hold lists.")
        alphas = columns[0]
        if len({len(column) for column in columns}) > 1 or not 0 < len(alphas) <= MOST_POWERS:
            raise ValueError("alpha_curve does not have one score for each of a few powers.")
        numbers = [x for column in (*columns, weights, [num_data, gain]) for x in column]
        if not all(type(x) is float and math.isfinite(x) for x in numbers):
            raise ValueError("alpha_curve holds something other than finite numbers.")
        if alphas != sorted(set(alphas)) or max(map(abs, alphas)) > LARGEST_ALPHA:
            raise ValueError("alpha_curve does not have ascending powers.")
        if not all(type(x) is int and 0 <= x < 2**31 for x in (num_rows, folds)) or not num_rows:
            raise ValueError("alpha_curve does not have a number of rows.")
        if not num_data > 0:
            raise ValueError("alpha_curve does not have a number of data points.")
        if weights and not (len(weights) == len(alphas) and _are_shares(weights)):
            raise ValueError("alpha_curve does not have one share for each power.")
        fields: list[Any] = [tuple(column) for column in columns]
        fields += [num_rows, num_data, folds, tuple(weights), gain]
        return cls(*fields)

    def stacked(self, scores: Mapping[float, PerRow], weights: PerRow) -> "AlphaCurve":
        """The curve with the shares of a stacked model, computed from the same scores.

        Shares below one percent are dropped. If there are too few rows to tell the powers apart,
        the chosen power gets the whole share.
        """
        found = np.array([scores[alpha] for alpha in self.alphas])
        if self.is_reliable:
            shares = stacking_weights(found, weights)
            shares = np.where(shares < LEAST_SHARE, 0.0, shares)
            shares = shares / shares.sum()
        else:
            shares = np.array([float(alpha == self.chosen) for alpha in self.alphas])
        with np.errstate(divide="ignore"):
            mixed = np.logaddexp.reduce(found + np.log(shares)[:, None])
        score = mixed @ weights / weights.sum()
        gain = float(score) - max(self.scores)
        return dataclasses.replace(self, weights=tuple(shares.tolist()), gain=gain)

    def to_json(self) -> dict[str, Any]:
        """The numbers of the curve as lists."""
        numbers = dataclasses.asdict(self).items()
        return {name: list(x) if isinstance(x, tuple) else x for name, x in numbers}

    @property
    def best(self) -> float:
        """The power with the highest score."""
        return self.alphas[int(np.argmax(self.scores))]

    @property
    def chosen(self) -> float:
        """The power with the highest score, or the one nearest 0 if there are too few rows."""
        return self.best if self.is_reliable else min(self.alphas, key=abs)

    @property
    def members(self) -> list[float]:
        """The powers with a share in a stacked model."""
        return [alpha for alpha, share in zip(self.alphas, self.weights, strict=True) if share]

    @property
    def is_reliable(self) -> bool:
        """Whether there are enough rows, and enough data points, to choose a power by."""
        return min(self.num_rows, self.num_data) >= FEWEST_ROWS

    @property
    def reason(self) -> str:
        """A sentence that says why this power, or this mixture of powers, was chosen."""
        if not self.is_reliable:
            return f"{self._few} too few to choose a power."
        if len(self.alphas) == 1:
            return "No other value could be compared."
        return self._comparison + (
            f" Single rows matter so much that the model was refitted without them, in "
            f"{self.folds} folds."
            if self.folds
            else ""
        )

    def __str__(self) -> str:
        lines = ["    α  left out  behind the best"]
        shares = self.weights or (None,) * len(self.alphas)
        for alpha, score, behind, error, share in zip(
            self.alphas, self.scores, self.behind, self.behind_errors, shares, strict=True
        ):
            mark = "  chosen" if share is None and alpha == self.chosen else ""
            mark = f"  {share:4.0%}" if share else mark
            lines.append(f"{alpha:5g}  {score:8.3f}  {behind:.3f} ± {error:.3f}{mark}")
        return "\n".join([*lines, self.reason])

    @property
    def _few(self) -> str:
        """How many rows there are, in words."""
        if self.num_rows >= FEWEST_ROWS:
            return f"{self.num_rows} rows that stand for {self.num_data:.3g} data points are"
        return "1 row is" if self.num_rows == 1 else f"{self.num_rows} rows are"

    @property
    def _comparison(self) -> str:
        """A sentence that compares the chosen power, or mixture, with the others."""
        best = self.best
        if len(self.weights) == 0 or len(self.members) == 1:
            rival = max((a for a in self.alphas if a != best), key=self._score)
            rival = 0.0 if best and 0.0 in self.alphas else rival
            gap = f"{self._gap(rival)} better than at α = {rival:g}"
            return f"Left-out rows are predicted best, {gap}."
        pairs = zip(self.alphas, self.weights, strict=True)
        shares = ", ".join(f"{share:.0%} of α = {alpha:g}" for alpha, share in pairs if share)
        return (
            f"Left-out rows are predicted best by a mixture of {shares}: "
            f"{max(self.gain, 0):.3f} nats better than by α = {best:g} alone."
        )

    def _score(self, alpha: float) -> float:
        return self.scores[self.alphas.index(alpha)]

    def _gap(self, alpha: float) -> str:
        """How far a power is behind the best, in words."""
        place = self.alphas.index(alpha)
        return f"{self.behind[place]:.3f} ± {self.behind_errors[place]:.3f} nats"


def stacking_weights(
    scores: Float64[np.ndarray, "alphas rows"], weights: PerRow
) -> Float64[np.ndarray, " alphas"]:
    """The shares w that maximize Σₙ log Σₖ wₖ exp(scoreₖₙ), by expectation maximization.

    The sum is concave in w. An update multiplies each share by the average responsibility of its
    power, divided by the share. At the optimum no such factor exceeds 1; until then, the logarithm
    of the largest factor bounds the nats per row that can still be gained.

    Args:
        scores: Log-densities of left-out rows.
        weights: How many data points each row stands for.
    """
    densities = np.exp(scores - scores.max(axis=0))
    parts = weights / weights.sum()
    shares = np.full(len(scores), 1 / len(scores))
    for _ in range(NUM_UPDATES):
        factors = (densities / (shares @ densities)) @ parts
        shares = shares * factors
        if np.log(factors.max()) < TOLERANCE:
            break
    return shares / shares.sum()


def _checked(scores: list[Any], weights: Any) -> tuple[Float64[np.ndarray, "alphas rows"], PerRow]:
    """The scores as a matrix, and the weights of the rows."""
    columns = [np.asarray(each, np.float64) for each in scores]
    num_rows = 0 if weights is None else len(weights)
    shapes = {each.shape for each in columns} | ({(num_rows,)} if num_rows else set())
    if len(shapes) != 1 or len(shape := shapes.pop()) != 1 or shape[0] == 0:
        raise ValueError("scores must have one number for each row at every power.")
    found = np.array(columns)
    if not np.isfinite(found).all():
        raise ValueError("scores must be finite; got NaN or infinity for some rows.")
    return found, np.ones(shape[0]) if weights is None else np.asarray(weights, np.float64)


def _are_shares(weights: list[float]) -> bool:
    return min(weights) >= 0 and abs(sum(weights) - 1) < ROUNDING


def mean_and_error(
    values: Float64[np.ndarray, "alphas rows"], weights: PerRow
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Weighted means over the rows and their standard errors."""
    shares, num_rows = weights / weights.sum(), len(weights)
    means = values @ shares
    squares = np.square(values - means[:, None]) @ np.square(shares)
    errors = np.sqrt(squares * num_rows / max(1, num_rows - 1))
    return tuple(means.tolist()), tuple(errors.tolist())
