"""The curve of α: how well training rows are predicted without them, and the power to take."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from bbalpha.interfaces.limits import LARGEST_ALPHA

MOST_POWERS = 100  # of a curve in a file
FEWEST_ROWS = 10  # to choose a power by
HIGHEST_LEVERAGE = 0.5  # mean over the rows; beyond, leaving one out is no small change

PerRow = Float64[np.ndarray, " rows"]


@dataclass(frozen=True)
class AlphaCurve:
    """Leave-one-out scores at several powers, in nats per row; `print` shows a table.

    Attributes:
        alphas: The powers, in ascending order.
        scores: The mean score at each, from `leave_one_out`; higher is better.
        standard_errors: Of these means, as estimates for all rows like these.
        behind: How far each is behind the best.
        behind_errors: Standard errors of that, which are smaller because the rows are the same.
        leverages: The mean leverage of the rows at each power.
        num_rows: How many rows were scored.

    >>> curve = bb.AlphaCurve(
    ...     alphas=(0.0, 0.5),
    ...     scores=(-1.21, -1.2),
    ...     standard_errors=(0.1, 0.1),
    ...     behind=(0.01, 0.0),
    ...     behind_errors=(0.02, 0.0),
    ...     leverages=(0.1, 0.1),
    ...     num_rows=90,
    ... )
    >>> curve.chosen, curve.reason
    (0.0, 'α = 0.5 predicts left-out rows best, but not clearly: 0.010 ± 0.020 nats better.')
    """

    alphas: tuple[float, ...]
    scores: tuple[float, ...]
    standard_errors: tuple[float, ...]
    behind: tuple[float, ...]
    behind_errors: tuple[float, ...]
    leverages: tuple[float, ...]
    num_rows: int

    @classmethod
    def of(
        cls, scores: Mapping[float, PerRow], leverages: Mapping[float, PerRow], weights: PerRow
    ) -> "AlphaCurve":
        """The curve of the scores of the same rows at every power."""
        alphas = tuple(sorted(scores))
        found = np.array([scores[alpha] for alpha in alphas])
        best = found[np.argmax(found @ weights)]
        return cls(
            alphas,
            *_mean_and_error(found, weights),
            *_mean_and_error(best - found, weights),
            tuple(float(weights @ leverages[alpha] / weights.sum()) for alpha in alphas),
            len(weights),
        )

    @classmethod
    def from_json(cls, described: Any) -> "AlphaCurve":
        """The curve that `to_json` described, if its numbers can be those of one.

        Raises:
            ValueError: If they cannot.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(described, dict) or sorted(described) != sorted(names):
            raise ValueError("alpha_curve does not have the fields of a curve.")
        *columns, num_rows = (described[name] for name in names)
        if not all(isinstance(column, list) for column in columns):
            raise ValueError("alpha_curve does not hold lists.")
        alphas = columns[0]
        if len({len(column) for column in columns}) > 1 or not 0 < len(alphas) <= MOST_POWERS:
            raise ValueError("alpha_curve does not have one score for each of a few powers.")
        if not all(type(x) is float and math.isfinite(x) for column in columns for x in column):
            raise ValueError("alpha_curve holds something other than finite numbers.")
        if alphas != sorted(set(alphas)) or max(map(abs, alphas)) > LARGEST_ALPHA:
            raise ValueError("alpha_curve does not have ascending powers.")
        if type(num_rows) is not int or not 0 < num_rows < 2**31:
            raise ValueError("alpha_curve does not have a number of rows.")
        numbers: list[Any] = [tuple(column) for column in columns]
        return cls(*numbers, num_rows=num_rows)

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
        """The power nearest 0 of those within one standard error of the best."""
        if not self._is_reliable:
            return min(self.alphas, key=abs)
        pairs = zip(self.alphas, self.behind, self.behind_errors, strict=True)
        close = [alpha for alpha, behind, error in pairs if behind <= error]
        return min(close, key=lambda alpha: (abs(alpha), -alpha))

    @property
    def reason(self) -> str:
        """Why that power was chosen, as a sentence."""
        chosen, best = self.chosen, self.best
        if self.num_rows < FEWEST_ROWS:
            return f"{self.num_rows} rows are too few to choose a power by."
        if len(self.alphas) == 1:
            return "No other value was tried."
        if not self._is_reliable:
            return "Single rows matter too much to choose by leaving them out."
        if chosen != best:
            return (
                f"α = {best:g} predicts left-out rows best, but not clearly: "
                f"{self._gap(chosen)} better."
            )
        second = max((a for a in self.alphas if a != best), key=self._score)
        nearest = min(self.alphas, key=abs)
        rival = second if chosen == nearest else nearest
        return f"Left-out rows are predicted best, {self._gap(rival)} better than at α = {rival:g}."

    def __str__(self) -> str:
        lines = ["    α  left out  behind the best"]
        for alpha, score, behind, error in zip(
            self.alphas, self.scores, self.behind, self.behind_errors, strict=True
        ):
            mark = "  chosen" if alpha == self.chosen else ""
            lines.append(f"{alpha:5g}  {score:8.3f}  {behind:.3f} ± {error:.3f}{mark}")
        return "\n".join([*lines, self.reason])

    @property
    def _is_reliable(self) -> bool:
        return self.num_rows >= FEWEST_ROWS and min(self.leverages) <= HIGHEST_LEVERAGE

    def _score(self, alpha: float) -> float:
        return self.scores[self.alphas.index(alpha)]

    def _gap(self, alpha: float) -> str:
        """How far a power is behind the best, in words."""
        place = self.alphas.index(alpha)
        return f"{self.behind[place]:.3f} ± {self.behind_errors[place]:.3f} nats"


def _mean_and_error(
    values: Float64[np.ndarray, "alphas rows"], weights: PerRow
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Weighted means over the rows and their standard errors."""
    shares, num_rows = weights / weights.sum(), len(weights)
    means = values @ shares
    squares = np.square(values - means[:, None]) @ np.square(shares)
    errors = np.sqrt(squares * num_rows / max(1, num_rows - 1))
    return tuple(means.tolist()), tuple(errors.tolist())
