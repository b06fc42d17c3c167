"""Effects: what the categories of a column with many of them mean for the target.

A category c that n rows have gets the posterior mean of its effect under a normal prior,

    e_c = n τ² / (n τ² + σ²) · (ȳ_c − ȳ)

where σ² and τ², the variances within and between categories, are estimated from all rows. Rare
categories are drawn to zero, where unseen ones are. A training row gets the effect that the other
nine tenths of the rows give its category; its own target would tell a model too much.
"""

from dataclasses import dataclass

import numpy as np

from bbalpha.tables.tails import Tails

NUM_FOLDS = 10
MAX_OUTPUTS = 10  # classes or targets with an effect of their own


@dataclass(frozen=True)
class Effects:
    """The effects of categories on each output, and on how the estimate was made.

    Attributes:
        values: The effects in deviations of the target, of shape (categories, outputs).
        within: σ² of each output.
        between: τ² of each output.
    """

    values: np.ndarray
    within: np.ndarray
    between: np.ndarray

    @classmethod
    def learn(cls, codes: np.ndarray, num_categories: int, outputs: np.ndarray) -> "Effects":
        """Return the effects of categories on outputs, one row of each per row of the table."""
        within, between = _variances(codes, num_categories, outputs)
        values = _shrunk_means(codes, num_categories, outputs, within, between)
        return cls(values, within, between)

    def of_training_rows(self, codes: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Return the effect for every training row, without what its own tenth of rows tells."""
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
    """Targets as the columns whose means categories are compared by, with mean 0 and deviation 1.

    Numbers lose their heavy tails. A class becomes an indicator; the first of two classes needs
    none. None if all targets are equal.

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
    """The column with mean 0 and deviation 1, by way of a unit in which its squares are numbers."""
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
