"""`Calibration`: tests on left-out rows of whether a model is as certain as it should be.

For numbers, Uₙ = F₋ₙ(yₙ) is the predicted probability of a smaller target when row n is left out.
In a calibrated model, U is uniform, and the central interval of level p covers yₙ where
|2Uₙ − 1| ≤ p. For classes, the probability of the predicted class should equal the share of rows
where it is right. All tests are two-sided and either exact or simulated; they treat the rows, each
left out in turn, as independent, which is nearly true. `repair` changes a model that fails.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.special import bdtr, erfc, kolmogorov

from bbalpha.interfaces.without import RowsLeftOut

LEVELS = (0.5, 0.8, 0.9, 0.95)  # of the intervals whose coverage is tested
NUM_BINS = 10  # in the histogram of U, and of probabilities
NUM_TABLES = 1000  # simulated tables of labels
MOST_NUMBERS = 100  # in a file
SIGNIFICANCE = 0.01  # of all tests together

Rows = Float64[np.ndarray, " rows"]


@dataclass(frozen=True)
class Calibration:
    """How well a model is calibrated on left-out rows; `print` shows a summary.

    Attributes:
        levels: The levels of the central intervals; empty for classes.
        covered: The share of targets inside the interval of each level.
        confidence: For classes, the mean probability of the predicted class; for numbers NaN.
        accuracy: For classes, how often the predicted class is right; for numbers NaN.
        error: For classes, the expected calibration error over ten bins. For numbers, the mean
            distance of `covered` from `levels`. Lower is better.
        histogram: The share of rows in each tenth of U, or of the probability of the predicted
            class.
        p_values: For every test by name, the probability of a result at least as far off.
        num_rows: Number of rows that were left out.
        factor: The factor by which the spread of predictions was multiplied because of these rows.

    >>> import numpy as np
    >>> outcomes = bb.Calibration.of_numbers(np.linspace(0.005, 0.995, 100))
    >>> print(outcomes)
    intervals of 50, 80, 90, 95 % cover 50, 80, 90, 96 % of left-out rows: calibrated
    """

    levels: tuple[float, ...]
    covered: tuple[float, ...]
    confidence: float
    accuracy: float
    error: float
    histogram: tuple[float, ...]
    p_values: dict[str, float]
    num_rows: int
    factor: float = 1.0

    @classmethod
    def of(cls, found: RowsLeftOut, labels: np.ndarray | None) -> "Calibration":
        """The calibration of the predictions for left-out rows; with labels, that of classes."""
        if labels is not None:
            return cls.of_classes(found.mean, labels)
        # For counts, F jumps at yₙ; a random point of the jump makes U uniform.
        part = np.random.default_rng(0).random(found.below.shape)
        return cls.of_numbers(found.below + part * (found.up_to - found.below))

    @classmethod
    def of_numbers(cls, below: np.ndarray) -> "Calibration":
        """The calibration of the probabilities U, of shape (rows,) or (rows, columns)."""
        columns = below.reshape(len(below), -1).T
        needed = np.abs(2 * columns - 1)
        covered = [float(np.mean(needed <= level)) for level in LEVELS]
        tests = {
            f"{level:.0%}": [_binomial_test(column <= level, level) for column in needed]
            for level in LEVELS
        }
        tests["uniform"] = [_uniform_test(column) for column in columns]
        counts = np.histogram(columns, NUM_BINS, (0.0, 1.0))[0]
        return cls(
            levels=LEVELS,
            covered=tuple(covered),
            confidence=math.nan,
            accuracy=math.nan,
            error=float(np.mean(np.abs(np.subtract(covered, LEVELS)))),
            histogram=tuple((counts / counts.sum()).tolist()),
            p_values={name: min(1.0, len(columns) * min(p)) for name, p in tests.items()},
            num_rows=len(below),
        )

    @classmethod
    def of_classes(cls, probabilities: np.ndarray, labels: np.ndarray) -> "Calibration":
        """The calibration of the probabilities of classes, given the numbers of the true ones."""
        sure = np.minimum(probabilities.max(axis=1), 1.0)
        right = probabilities.argmax(axis=1) == labels
        bins = np.minimum((sure * NUM_BINS).astype(int), NUM_BINS - 1)
        error = _calibration_error(right[None], sure, bins)[0]
        tables = np.random.default_rng(0).random((NUM_TABLES, len(sure))) < sure
        is_larger = _calibration_error(tables, sure, bins) >= error
        deviation = math.sqrt(np.sum(sure * (1 - sure)))
        gap = abs(float(np.sum(sure - right)))
        counts = np.bincount(bins, minlength=NUM_BINS)
        return cls(
            levels=(),
            covered=(),
            confidence=float(sure.mean()),
            accuracy=float(right.mean()),
            error=float(error),
            histogram=tuple((counts / len(sure)).tolist()),
            p_values={
                "confidence": float(erfc(gap / max(deviation, 1e-12) / math.sqrt(2))),
                "bins": float((1 + is_larger.sum()) / (1 + NUM_TABLES)),
            },
            num_rows=len(sure),
        )

    @classmethod
    def from_json(cls, described: Any) -> "Calibration":
        """The calibration that `to_json` described.

        Raises:
            ValueError: If the numbers cannot be those of a calibration.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(described, dict) or set(described) != {*names, "is_calibrated"}:
            raise ValueError("calibration does not have the fields of one.")
        found = {name: described[name] for name in names}
        tuples = ("levels", "covered", "histogram")
        p_values = found["p_values"]
        if not (isinstance(p_values, dict) and all(isinstance(found[x], list) for x in tuples)):
            raise ValueError("calibration does not hold lists.")
        numbers = [x for name in tuples for x in found[name]] + list(p_values.values())
        numbers += [x for x in (found["confidence"], found["accuracy"]) if x is not None]
        numbers += [found["error"], found["factor"]]
        is_short = len(numbers) <= MOST_NUMBERS and len(p_values) > 0
        if not (is_short and all(type(x) is float and 0 <= x < math.inf for x in numbers)):
            raise ValueError("calibration holds something other than a few positive numbers.")
        if type(found["num_rows"]) is not int or not 0 < found["num_rows"] < 2**31:
            raise ValueError("calibration does not have a number of rows.")
        found |= {name: tuple(found[name]) for name in tuples}
        found |= {x: math.nan for x in ("confidence", "accuracy") if found[x] is None}
        return cls(**found)

    @property
    def is_calibrated(self) -> bool:
        """Whether all tests pass, at a significance of one percent for all of them together."""
        return min(self.p_values.values()) * len(self.p_values) >= SIGNIFICANCE

    def to_json(self) -> dict[str, Any]:
        """All numbers, and whether the model passes the tests; NaN becomes null."""
        found = dataclasses.asdict(self)
        plain = {name: list(x) if isinstance(x, tuple) else x for name, x in found.items()}
        if self.levels:
            plain |= {"confidence": None, "accuracy": None}
        return plain | {"is_calibrated": self.is_calibrated}

    def __str__(self) -> str:
        if self.levels:
            levels, covered = (
                ", ".join(f"{100 * x:.0f}" for x in shares)
                for shares in (self.levels, self.covered)
            )
            found = f"intervals of {levels} % cover {covered} % of left-out rows"
        else:
            found = (
                f"mean confidence {self.confidence:.1%}, right in {self.accuracy:.1%} "
                "of left-out rows"
            )
        verdict = "calibrated" if self.is_calibrated else self._problem
        repair = "" if self.factor == 1 else f"; spread multiplied by {self.factor:.2f}"
        return f"{found}: {verdict}{repair}"

    @property
    def _problem(self) -> str:
        """What is wrong, in one or two words."""
        if not self.levels:
            gap = self.confidence - self.accuracy
            return "overconfident" if gap > 0 else "underconfident"
        gaps = np.subtract(self.covered, self.levels)
        if abs(gaps.sum()) < np.abs(gaps).max() / 2:
            return "off, but neither too wide nor too narrow"
        return "too wide" if gaps.sum() > 0 else "too narrow"


def _binomial_test(hits: np.ndarray, level: float) -> float:
    """Twice the probability of as few, or as many, hits."""
    count, number = int(np.sum(hits)), len(hits)
    few, many = bdtr(count, number, level), 1 - bdtr(count - 1, number, level) if count else 1.0
    return float(min(1.0, 2 * min(few, many)))


def _uniform_test(below: Rows) -> float:
    """The Kolmogorov-Smirnov test, with Stephens' correction for few rows."""
    number, ordered = len(below), np.sort(below)
    steps = np.arange(number + 1) / number
    distance = max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max())
    root = math.sqrt(number)
    return float(kolmogorov(distance * (root + 0.12 + 0.11 / root)))


def _calibration_error(right: np.ndarray, sure: Rows, bins: np.ndarray) -> np.ndarray:
    """Σ over bins |Σ right − Σ sure| / rows, for every table of outcomes."""
    is_in = (bins[:, None] == np.arange(NUM_BINS)).astype(float)
    return np.abs((right - sure) @ is_in).sum(axis=1) / len(sure)
