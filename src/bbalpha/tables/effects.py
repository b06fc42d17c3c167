"""Effects: one number per category for text columns with many categories (target encoding).

A category c that n rows have gets the posterior mean of its effect under a normal prior,

    e_c = n τ² / (n τ² + σ²) · (ȳ_c − ȳ)

where σ² and τ², the variances within and between categories, are estimated from all rows. The
effects of rare categories shrink to zero, the effect of an unseen one. For a training row, the
effect is estimated from the other nine tenths of the rows; otherwise its own target would leak into
its features.
"""

from dataclasses import dataclass

import numpy as np

from bbalpha.tables.tails import Tails

NUM_FOLDS = 10
MAX_OUTPUTS = 10  # classes or targets that get their own effects


@dataclass(frozen=True)
class Effects:
    """The effects of categories on each output, and the variances used to estimate them.

    Attributes:
        values: The effects in standard deviations of the target, of shape (categories, outputs).
        within: σ² of each output.
        between: τ² of each output.
    """

    values: np.ndarray
    within: np.ndarray
    between: np.ndarray

    @classmethod
    def learn(cls, codes: np.ndarray, num_categories: int, outputs: np.ndarray) -> "Effects":
        """Return the effects of categories, from the code and the outputs of every row."""
        within, between = _variances(codes, num_categories, outputs)
        values = _shrunk_means(codes, num_categories, outputs, within, between)
        return cls(values, within, between)

    def of_training_rows(self, codes: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Return the effect for every training row, estimated without its own tenth of the rows."""
        folds = np.random.default_rng(0).permutation(len(codes)) % NUM_FOLDS
        found = np.zeros(outputs.shape)
        for fold in range(min(NUM_FOLDS, len(codes))):
            inside = folds == fold
            values = _shrunk_means(
                codes[~inside], len(self.values), outputs[~inside], self.within, self.between
            )
            found[inside] = values[codes[inside]]
        return found


def outputs_of(targets: np.ndarray) -> np.ndarray | None:
    """Targets as columns of mean 0 and deviation 1, whose means are compared between categories.

    Numbers lose their heavy tails. Each class becomes an indicator; of two classes, only the second
    does. The result is None if all targets are equal.

    Args:
        targets: Numbers, of shape (rows,) or (rows, outputs), or labels of any other kind.
    """
    if targets.dtype.kind == "f":
        columns = [Tails.learn(column).apply(column) for column in np.atleast_2d(targets.T)]
    else:
        classes, counts = np.unique(targets, return_counts=True)
        frequent = classes[np.argsort(-counts, kind="stable")]
        chosen = frequent[:1] if len(classes) == 2 else frequent
        columns = [(targets == label).astype(float) for label in chosen[:MAX_OUTPUTS]]
    columns = [_standardized(c) for c in columns[:MAX_OUTPUTS] if c.min() < c.max()]
    return np.stack(columns, axis=1) if columns else None


def _standardized(column):
    """The column with mean 0 and deviation 1, computed in a unit in which squares are finite."""
    exponent = np.frexp(np.abs(column).max())[1]
    column = np.ldexp(column, -exponent)
    column = column - column.mean()
    return column / column.std()


def _variances(codes, num_categories, outputs):
    """σ² and τ² of each output, by the method of moments."""
    counts = np.bincount(codes, minlength=num_categories)
    means = _sums(codes, num_categories, outputs) / np.maximum(counts, 1)[:, None]
    num, num_present = len(codes), np.count_nonzero(counts)
    within = np.sum((outputs - means[codes]) ** 2, axis=0) / max(num - num_present, 1)
    spread = np.sum(counts[:, None] * (means - outputs.mean(axis=0)) ** 2, axis=0)
    size = num - np.sum(counts.astype(float) ** 2) / num
    between = (spread - (num_present - 1) * within) / size if size > 0 else 0 * within
    return within, np.maximum(between, 0.0)


def _shrunk_means(codes, num_categories, outputs, within, between):
    counts = np.bincount(codes, minlength=num_categories)[:, None]
    deviations = _sums(codes, num_categories, outputs - outputs.mean(axis=0))
    denominator = counts * between + within
    return np.where(denominator > 0, between * deviations / np.maximum(denominator, 1e-300), 0.0)


def _sums(codes, num_categories, outputs):
    return np.stack(
        [np.bincount(codes, weights=column, minlength=num_categories) for column in outputs.T],
        axis=1,
    )
