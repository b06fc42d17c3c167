"""Distributions of targets given the outputs of the network, in NumPy and in float64.

They mirror the likelihoods of the estimators, which need jax. Outputs have shape (draws, rows,
columns), targets (rows, columns), in the units of the network.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from bbalpha.engine.count_probabilities import (
    LARGEST_LOG_SIZE,
    log_gamma,
    negative_binomial_log_prob,
    negative_binomial_tails,
    poisson_log_height,
    poisson_tails,
)
from bbalpha.engine.probabilities import LOG_TWO_PI, log_ndtr_and_slope, ndtr, student_t_cdf

MANY_DEGREES = 1e6  # from here on, the log-normalizer of Student's t is Gaussian up to 1/(4ν)
FEWEST = np.finfo(np.float32).tiny  # smallest scale


@runtime_checkable
class Targets(Protocol):
    """The distribution of a target given outputs."""

    is_whole: bool

    def mean(self, outputs: np.ndarray) -> np.ndarray:
        """Return the mean of every target; for classes, their probabilities."""
        ...

    def variance(self, outputs: np.ndarray) -> np.ndarray:
        """Return the variance of every target."""
        ...

    def log_prob(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return the log-density of every row, of shape (draws, rows)."""
        ...

    def cdf(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return P(Y ≤ y) for every target."""
        ...

    def survival(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return P(Y > y) for every target, precise even where it is small."""
        ...

    def sample(self, outputs: np.ndarray, stream: np.random.Generator) -> np.ndarray:
        """Return one target for every draw and row."""
        ...


@dataclass(frozen=True)
class Normal:
    """A Gaussian; without `log_variance`, the second half of the outputs is the log-variance."""

    log_variance: np.ndarray | None = None
    is_whole = False

    def mean(self, outputs: np.ndarray) -> np.ndarray:
        """Return the mean of every target."""
        return self._parts(outputs)[0]

    def variance(self, outputs: np.ndarray) -> np.ndarray:
        """Return the variance of every target."""
        mean, log_variance = self._parts(outputs)
        return np.broadcast_to(np.exp(log_variance), mean.shape)

    def log_prob(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return the log-density of every row."""
        mean, log_variance = self._parts(outputs)
        terms = LOG_TWO_PI + log_variance + np.square(targets - mean) * np.exp(-log_variance)
        return -0.5 * terms.sum(axis=-1)

    def cdf(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return P(Y ≤ y) for every target."""
        return ndtr(self._score(outputs, targets))

    def survival(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return P(Y > y) for every target."""
        return ndtr(-self._score(outputs, targets))

    def sample(self, outputs: np.ndarray, stream: np.random.Generator) -> np.ndarray:
        """Return one target for every draw and row."""
        return stream.normal(self.mean(outputs), np.sqrt(self.variance(outputs)))

    def _score(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        mean, log_variance = self._parts(outputs)
        return (targets - mean) / np.maximum(np.exp(0.5 * log_variance), FEWEST)

    def _parts(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.log_variance is not None:
            return outputs, self.log_variance
        mean, log_variance = np.split(outputs, 2, axis=-1)
        return mean, log_variance


@dataclass(frozen=True)
class StudentT:
    """Student's t around the outputs."""

    log_scale: np.ndarray
    log_degrees_of_freedom: np.ndarray
    is_whole = False

    def mean(self, outputs: np.ndarray) -> np.ndarray:
        """Return the outputs."""
        return outputs

    def variance(self, outputs: np.ndarray) -> np.ndarray:
        """Return scale² ν / (ν − 2), infinite where ν ≤ 2."""
        inverse = np.maximum(1 - 2 * np.exp(-self.log_degrees_of_freedom), 0.0)
        return np.broadcast_to(np.exp(2 * self.log_scale) / inverse, outputs.shape)

    def log_prob(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return the log-density of every row."""
        df = np.exp(self.log_degrees_of_freedom)
        few = np.minimum(df, MANY_DEGREES)
        exact = log_gamma(np.full_like(few, 0.5)) + log_gamma(few / 2) - log_gamma((few + 1) / 2)
        exact += 0.5 * np.log(few)
        log_normalizer = np.where(df > MANY_DEGREES, 0.5 * LOG_TWO_PI + 0.25 / df, exact)
        residuals = (targets - outputs) * np.exp(-self.log_scale)
        kernel = (df + 1) / 2 * np.log1p(np.square(residuals) / df)
        return -(log_normalizer + self.log_scale + kernel).sum(axis=-1)

    def cdf(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return P(Y ≤ y) for every target."""
        return student_t_cdf(self._score(outputs, targets), self._degrees)

    def survival(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return P(Y > y) for every target."""
        return student_t_cdf(-self._score(outputs, targets), self._degrees)

    def sample(self, outputs: np.ndarray, stream: np.random.Generator) -> np.ndarray:
        """Return one target for every draw and row."""
        noise = stream.standard_t(np.exp(self.log_degrees_of_freedom), outputs.shape)
        return outputs + np.exp(self.log_scale) * noise

    def _score(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return (targets - outputs) / np.maximum(np.exp(self.log_scale), FEWEST)

    @property
    def _degrees(self) -> np.ndarray:
        return np.exp(self.log_degrees_of_freedom).reshape(1, 1, -1)


@dataclass(frozen=True)
class Counts:
    """A Poisson count with log-rate `outputs`; with `log_size`, a negative binomial count."""

    log_size: np.ndarray | None = None
    is_whole = True

    def mean(self, outputs: np.ndarray) -> np.ndarray:
        """Return the rate."""
        return np.exp(outputs)

    def variance(self, outputs: np.ndarray) -> np.ndarray:
        """Return λ, or λ + λ²/r."""
        rate = np.exp(outputs)
        return rate if self.log_size is None else rate + np.square(rate) * np.exp(-self._size)

    def log_prob(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return the log-probability of every row."""
        if self.log_size is not None:
            found = negative_binomial_log_prob(targets[None], self._size[None, None], outputs)
            return found.sum(axis=-1)
        delta = outputs - np.log(np.maximum(targets, 1.0))
        some = targets * (delta - np.expm1(delta))
        distance = np.where(targets > 0, some, -np.exp(outputs))
        return (poisson_log_height(targets) + distance).sum(axis=-1)

    def cdf(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return P(Y ≤ y) for every target."""
        return self._tails(outputs, targets)[0]

    def survival(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return P(Y > y) for every target."""
        return self._tails(outputs, targets)[1]

    def _tails(self, outputs: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        targets = targets[None]
        if self.log_size is None:
            return poisson_tails(targets, outputs)
        single = (array.astype(np.float32) for array in (targets, self._size[None, None], outputs))
        return negative_binomial_tails(*single)  # float64 would take seven times as long

    def sample(self, outputs: np.ndarray, stream: np.random.Generator) -> np.ndarray:
        """Return one count for every draw and row."""
        rate = np.exp(outputs)
        if self.log_size is not None:
            size = np.exp(self._size)
            rate = rate * stream.gamma(np.broadcast_to(size, rate.shape)) / size
        return stream.poisson(rate)

    @property
    def _size(self) -> np.ndarray:
        assert self.log_size is not None
        return np.minimum(self.log_size, LARGEST_LOG_SIZE)


@dataclass(frozen=True)
class Labels:
    """One of several classes; a single output is a probit, several are logits."""

    is_whole = True

    def mean(self, outputs: np.ndarray) -> np.ndarray:
        """Return the probability of every class."""
        if outputs.shape[-1] == 1:
            return np.concatenate([ndtr(-outputs), ndtr(outputs)], axis=-1)
        return np.exp(_log_softmax(outputs))

    def variance(self, outputs: np.ndarray) -> np.ndarray:
        """Return p (1 − p) for every class."""
        probabilities = self.mean(outputs)
        return probabilities * (1 - probabilities)

    def log_prob(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return the log-probability of every row's class, whose number is the target."""
        if outputs.shape[-1] == 1:
            return log_ndtr_and_slope((2 * targets - 1) * outputs)[0][..., 0]
        numbers = np.broadcast_to(targets.astype(int), (*outputs.shape[:2], 1))
        return np.take_along_axis(_log_softmax(outputs), numbers, axis=-1)[..., 0]

    def cdf(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return P(Y ≤ y) for every target."""
        raise TypeError("classes have no order.")

    def survival(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return P(Y > y) for every target."""
        raise TypeError("classes have no order.")

    def sample(self, outputs: np.ndarray, stream: np.random.Generator) -> np.ndarray:
        """Return the number of a class for every draw and row."""
        cumulated = np.cumsum(self.mean(outputs), axis=-1)
        heights = stream.uniform(size=cumulated.shape[:2])[..., None] * cumulated[..., -1:]
        return (cumulated < heights).sum(axis=-1, keepdims=True)


def _log_softmax(outputs: np.ndarray) -> np.ndarray:
    shifted = outputs - outputs.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
