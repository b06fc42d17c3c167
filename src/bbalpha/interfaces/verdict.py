"""`judge`: does a fitted estimator predict better than a constant or a linear model?

The scores are log-likelihoods of training rows, each left out in turn: `left_out` computes them for
the estimator, `simple_models` for its rivals.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from bbalpha.interfaces import simple_models
from bbalpha.interfaces.calibration import Calibration
from bbalpha.interfaces.left_out import chosen_rows, rows_of
from bbalpha.interfaces.repair import calibration_of
from bbalpha.interfaces.settings import COUNTS
from bbalpha.interfaces.without import predicted_without
from bbalpha.metrics import standard_error

MARGIN = 0.05  # nats; the typical error of `held_out` for numbers (table in docs/tables.md)


@dataclass(frozen=True)
class Verdict:
    """The result of `judge`; `print` shows it in three lines.

    Scores are log-likelihoods in nats per row; higher is better.

    Attributes:
        training: Score of the estimator on rows that it was fitted to.
        held_out: Score of the estimator on the same rows, each left out.
        constant: Score of a constant prediction on the same rows, each left out.
        linear: Score of a linear model on the same rows, each left out.
        constant_error: Standard error of `held_out − constant`, from paired differences.
        linear_error: Standard error of `held_out − linear`, likewise.
        num_rows: Number of rows that were scored.
        calibration: Calibration of the estimator on these rows, each left out.
    """

    training: float
    held_out: float
    constant: float
    linear: float
    constant_error: float
    linear_error: float
    num_rows: int
    calibration: Calibration | None = None

    @property
    def warning(self) -> str | None:
        """A sentence if a simpler model is clearly better, otherwise None.

        A simpler model is clearly better if it wins by more than the standard error of the
        difference and by more than 0.05 nats, because `held_out` is an approximation.
        """
        rivals = {
            "a constant": (self.constant, self.constant_error),
            "a linear model": (self.linear, self.linear_error),
        }
        name, (score, error) = max(rivals.items(), key=lambda rival: rival[1][0])
        if not score - self.held_out > max(error, MARGIN):  # NaN is not a win
            return None
        return (
            f"{name} predicts rows that are left out better than this model: log-likelihood "
            f"{score:.3f} against {self.held_out:.3f} per row (difference "
            f"{score - self.held_out:.3f} ± {error:.3f})."
        )

    def __str__(self) -> str:
        lines = [
            f"log-likelihood per row: training {self.training:.3f}, left out {self.held_out:.3f}",
            f"left out, simpler models: constant {self.constant:.3f}, linear {self.linear:.3f}",
        ]
        return "\n".join(lines + ([str(self.calibration)] if self.calibration else []))


def judge(model: Any, X: Any, y: Any) -> Verdict:
    """Compare a fitted estimator with a constant and a linear model on left-out training rows.

    This takes little time compared with a fit: it uses at most 1,000 rows, evenly spread.

    Args:
        model: A fitted `BBAlphaRegressor` or `BBAlphaClassifier`.
        X: The inputs that it was fitted to.
        y: The targets that it was fitted to.

    Raises:
        ValueError: If the data do not suit the model, or if there are fewer than three rows.

    >>> import numpy as np
    >>> x = np.linspace(-2, 2, 60)[:, None]
    >>> y = 3 * x[:, 0] + np.random.RandomState(0).normal(size=60)
    >>> model = bb.BBAlphaRegressor((), likelihood="gaussian", random_state=0).fit(x, y)
    >>> verdict = bb.judge(model, x, y)
    >>> verdict.held_out > verdict.constant, abs(verdict.held_out - verdict.linear) < 0.05
    (True, True)
    """
    _, X, y = chosen_rows(model, X, y)
    rows = rows_of(model, X, y)
    found = predicted_without(model, rows)
    training, held_out = found.training, found.held_out
    inputs = rows.inputs[:, : model.input_units_.mean.size]
    constant, linear = _simple_scores(model, inputs, y)
    return Verdict(
        training=float(training.mean()),
        held_out=float(held_out.mean()),
        constant=float(constant.mean()),
        linear=float(linear.mean()),
        constant_error=standard_error(held_out - constant),
        linear_error=standard_error(held_out - linear),
        num_rows=len(inputs),
        calibration=calibration_of(model, found, rows),
    )


def _simple_scores(
    model: Any, inputs: Float64[np.ndarray, "rows columns"], targets: np.ndarray
) -> tuple[Float64[np.ndarray, " rows"], Float64[np.ndarray, " rows"]]:
    """The scores of the constant and of the linear model; several outputs are independent."""
    if hasattr(model, "classes_"):
        labels, num_classes = targets[:, 0], len(model.classes_)
        constant = simple_models.constant_class(labels, num_classes)
        return constant, simple_models.linear_class(inputs, labels, num_classes)
    has_counts = model.likelihood_ in COUNTS
    constant, linear = (
        (simple_models.constant_count, simple_models.linear_count)
        if has_counts
        else (simple_models.constant_number, simple_models.linear_number)
    )
    columns = np.asarray(targets, np.float64).T
    scores = [(constant(column), linear(inputs, column)) for column in columns]
    constants, lines = zip(*scores, strict=True)
    return np.sum(constants, axis=0), np.sum(lines, axis=0)
