"""`Comparison`: the result of comparing methods, with one row for each, a table and a picture."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np

from bbalpha import files

NONE = "none"  # the method of a missing reference
ABSENT = "–"
HEADER = ("method", "α", "mean error", "deviations", "log evidence", "held out", "seconds")
SMALLEST = 5e-4  # smaller mean errors are shown as an order of magnitude
PICTURES = (".png", ".pdf", ".svg")


@dataclasses.dataclass(frozen=True, eq=False)
class ComparisonRow:
    """The result of one method. Numbers that it does not have are NaN.

    Attributes:
        method: the name of the method.
        alpha: its power α; NaN for a reference.
        mean: the posterior mean of every parameter.
        deviation: the posterior standard deviation of every parameter.
        log_evidence: minus the energy, an estimate of the log-evidence of the training rows.
        held_out: the log-likelihood per held-out row, in nats; higher is better.
        seconds: the run time of the method, without compiling.
        compiling: the seconds spent compiling.
        converged: whether the method converged.
        remark: why it failed or did not converge, or how the reference was computed.
    """

    method: str
    alpha: float
    mean: np.ndarray
    deviation: np.ndarray
    log_evidence: float
    held_out: float
    seconds: float
    compiling: float
    converged: bool
    remark: str = ""

    @property
    def label(self) -> str:
        """The method with its power, as text."""
        return self.method if math.isnan(self.alpha) else f"{self.method}, α = {self.alpha:g}"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Posteriors of several methods, compared with a reference; `print` shows a table.

    Attributes:
        rows: one row for each method and power, in the order of the arguments.
        reference: the row of the reference; its method is "exact", "nuts", "importance", "given"
            or, if there is no reference, "none".
    """

    rows: tuple[ComparisonRow, ...]
    reference: ComparisonRow

    def mean_errors(self, row: ComparisonRow) -> np.ndarray:
        """The error of each mean, in posterior deviations of the reference."""
        return (row.mean - self.reference.mean) / self.reference.deviation

    def deviation_ratios(self, row: ComparisonRow) -> np.ndarray:
        """Each posterior deviation relative to the reference; above 1 means too wide."""
        return row.deviation / self.reference.deviation

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per method, for `pandas.DataFrame` or JSON."""
        return [self._record(row) for row in self.rows]

    def plot(self, path: str | Path) -> None:
        """Draw the comparison and write it to a PNG, PDF or SVG file, according to its name.

        Raises:
            ValueError: if the name has another ending.
            ImportError: if matplotlib is not installed.
        """
        from bbalpha.message_passing.comparison_picture import figure_of

        suffix = Path(path).suffix.lower()
        if suffix not in PICTURES:
            raise ValueError(f"path must end in .png, .pdf or .svg; got {str(path)!r}.")
        figure = figure_of(self)
        with files.replacing(path) as temporary:
            figure.savefig(temporary, format=suffix.removeprefix("."))

    def __str__(self) -> str:
        first = () if self.reference.method == NONE else (self.reference,)
        lines = [HEADER, *(self._cells(row) for row in (*first, *self.rows))]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = [
            "  ".join(
                cell.rjust(width) if place else cell.ljust(width)
                for place, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([*table, *self._remarks()])

    __repr__ = __str__

    def _record(self, row: ComparisonRow) -> dict[str, Any]:
        errors, ratios = np.abs(self.mean_errors(row)), self.deviation_ratios(row)
        return {
            "method": row.method,
            "alpha": row.alpha,
            "largest_mean_error": float(errors.max()),
            "smallest_deviation_ratio": float(ratios.min()),
            "largest_deviation_ratio": float(ratios.max()),
            "log_evidence": row.log_evidence,
            "held_out": row.held_out,
            "seconds": row.seconds,
            "compiling": row.compiling,
            "converged": row.converged,
            "remark": row.remark,
        }

    def _cells(self, row: ComparisonRow) -> tuple[str, ...]:
        record = self._record(row)
        ends = [f"{record[f'{end}_deviation_ratio']:.2f}" for end in ("smallest", "largest")]
        is_reference = row is self.reference
        return (
            row.method,
            "" if math.isnan(row.alpha) else f"{row.alpha:g}",
            "" if is_reference else _error(record["largest_mean_error"]),
            "" if is_reference else _shown("–".join(dict.fromkeys(ends))),
            _shown(f"{row.log_evidence:.2f}"),
            _shown(f"{row.held_out:.3f}"),
            _shown(f"{row.seconds:.2f}"),
        )

    def _remarks(self) -> list[str]:
        """Sentences below the table: the meaning of the columns, and what went wrong."""
        lines = [f"Reference: {self.reference.remark}"]
        if self.reference.method != NONE:
            lines += [
                "Mean error: the largest error of a mean, in deviations of the reference.",
                "Deviations: the smallest and the largest, relative to the reference.",
            ]
        return lines + [f"{row.label}: {row.remark}" for row in self.rows if row.remark]


def _error(number: float) -> str:
    """Three decimals, or the order of magnitude of a smaller number."""
    return _shown(f"{number:.3f}" if number >= SMALLEST else f"{number:.0e}")


def _shown(text: str) -> str:
    """The text of a number, or a dash if it is NaN."""
    return ABSENT if "nan" in text else text
