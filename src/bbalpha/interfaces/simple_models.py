"""The simple rivals of a fitted estimator: a constant and a linear model.

Every function returns the log-density of each target, in nats, as predicted without its row: in
closed form for constants and for the linear model of numbers, by cross-validation for the rest.
Nothing here needs `sklearn.linear_model`, whose import takes half a second; tests compare with it.
"""

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float64, Int
from scipy.special import gammaln, logsumexp

NUM_FOLDS = 5
FEW_ROWS, MORE_FOLDS = 200, 20  # with fewer rows, leaving out a fifth would hurt; use more folds
NUM_UPDATES = 100  # most updates of the two variances of a ridge regression
TOLERANCE = 1e-4  # relative change of the variances at which to stop
SMALLEST = 1e-10  # share that is more than rounding
LEAST_NOISE = 1e-6  # smallest noise variance relative to the variance of the targets
HALF_A_COUNT = 0.5  # added so that counts that are all zero have a positive rate
NODES, WEIGHTS = np.polynomial.legendre.leggauss(9)
LOG_SIZES = (-7.0, 12.0)  # of a negative binomial: from far wider than Poisson to the same
NUM_SIZES, NUM_ZOOMS = 9, 7  # sizes tried at once, and zooms around the best: to within 1e-3

Inputs = Float64[np.ndarray, "rows columns"]
Numbers = Float64[np.ndarray, " rows"]
Labels = Int[np.ndarray, " rows"]


def constant_number(y: Numbers) -> Numbers:
    """A Gaussian with the mean and the sample variance of the other rows."""
    return _log_normal(*_left_out(y))


def constant_rounded(y: Numbers) -> Numbers:
    """The probability of a number between y − ½ and y + ½ under the same Gaussian."""
    residual, variance = _left_out(y)
    at_nodes = [_log_normal(residual + node / 2, variance) for node in NODES]
    return np.logaddexp.reduce(at_nodes + np.log(WEIGHTS / 2)[:, None])


def linear_number(X: Inputs, y: Numbers) -> Numbers:
    """Ridge regression with an intercept; its two variances maximize the evidence of all rows.

    With hat matrix H and noise σ², the prediction without row n is Gaussian with the residual
    eₙ/(1 − Hₙₙ) and the variance σ²/(1 − Hₙₙ).
    """
    centered, target = X - X.mean(axis=0), y - y.mean()
    left, sizes = _principal(centered)
    along = left.T @ target
    rest = max(0.0, float(target @ target - along @ along))
    noise, weight = _ridge_variances(sizes, along, rest, len(y), float(np.var(y)))
    kept = noise / (noise + weight * sizes)  # the share of each direction that is not fitted
    residual = target - left @ along + left @ (kept * along)
    beyond = np.maximum(0.0, 1 - 1 / len(y) - np.sum(left**2, axis=1))
    free = np.maximum(beyond + left**2 @ kept, SMALLEST)  # 1 − Hₙₙ without cancellation
    return _log_normal(residual / free, noise / free)


def constant_class(y: Labels, num_classes: int) -> Numbers:
    """The frequencies of the classes among the other rows, with one pseudo-count each."""
    counts = np.bincount(y, minlength=num_classes)
    return np.log(counts[y] / (len(y) - 1 + num_classes))


def linear_class(X: Inputs, y: Labels, num_classes: int) -> Numbers:
    """Softmax regression with a standard normal prior on the weights."""

    def loss(outputs: np.ndarray, labels: Labels) -> tuple[float, np.ndarray]:
        rows = np.arange(len(labels))
        log_probabilities = outputs - logsumexp(outputs, axis=1, keepdims=True)
        slopes = np.exp(log_probabilities)
        slopes[rows, labels] -= 1
        return -log_probabilities[rows, labels].sum(), slopes

    scores = np.empty(len(y))
    for training, test in _folds(len(y)):
        predict = _fitted(loss, X[training], y[training], num_classes)
        outputs = predict(X[test])
        scores[test] = outputs[np.arange(len(test)), y[test]] - logsumexp(outputs, axis=1)
    return scores


def constant_count(y: Numbers) -> Numbers:
    """A negative binomial, fitted by maximum likelihood; Poisson is its limit."""
    scores = np.empty(len(y))
    for training, test in _folds(len(y)):
        rate = (y[training].sum() + HALF_A_COUNT) / len(training)
        size = _count_size(y[training], np.full(len(training), rate))
        scores[test] = _log_count(y[test], np.full(len(test), rate), size)
    return scores


def linear_count(X: Inputs, y: Numbers) -> Numbers:
    """Poisson regression with a standard normal prior, widened to a negative binomial."""

    def loss(outputs: np.ndarray, counts: Numbers) -> tuple[float, np.ndarray]:
        rates = np.exp(np.minimum(outputs[:, 0], 50.0))
        return float(np.sum(rates - counts * outputs[:, 0])), (rates - counts)[:, None]

    scores = np.empty(len(y))
    for training, test in _folds(len(y)):
        predict = _fitted(loss, X[training], y[training], 1, np.log(y[training].mean() + 1e-3))
        highest = np.log(10 * (1 + y[training].max()))  # far outside the training rows
        rates, new = (
            np.exp(np.minimum(predict(X[part])[:, 0], highest)) for part in (training, test)
        )
        size = _count_size(y[training], rates)
        scores[test] = _log_count(y[test], new, size)
    return scores


def _left_out(y: Numbers) -> tuple[Numbers, Numbers]:
    """The residual and the variance of every row, from the moments of the other rows."""
    num_rows = len(y)
    centered = y - y.mean()
    squares = np.sum(centered**2) - centered**2 * num_rows / (num_rows - 1)
    variance = np.maximum(squares / max(1, num_rows - 2), LEAST_NOISE * np.var(y))
    return centered * num_rows / (num_rows - 1), variance


def _log_normal(residual: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return -0.5 * (np.log(2 * np.pi * variance) + residual**2 / variance)


def _principal(centered: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """The left singular vectors of positive size, and the squares of the singular values."""
    num_rows, num_columns = centered.shape
    if num_columns < num_rows:
        sizes, right = np.linalg.eigh(centered.T @ centered)
        kept = sizes > SMALLEST * max(sizes[-1], np.finfo(float).tiny)
        return centered @ right[:, kept] / np.sqrt(sizes[kept]), sizes[kept]
    sizes, left = np.linalg.eigh(centered @ centered.T)
    kept = sizes > SMALLEST * max(sizes[-1], np.finfo(float).tiny)
    return left[:, kept], sizes[kept]


def _ridge_variances(
    sizes: np.ndarray, along: np.ndarray, rest: float, num_rows: int, variance: float
) -> tuple[float, float]:
    """The variances of the noise and of the weights that maximize the evidence (MacKay, 1992)."""
    noise, weight = variance, 1.0
    floor = LEAST_NOISE * variance
    for _ in range(NUM_UPDATES):
        shrinkage = sizes / (sizes + noise / weight)
        freedom = shrinkage.sum()
        squares = rest + np.sum(((1 - shrinkage) * along) ** 2)
        length = np.sum(shrinkage**2 * along**2 / sizes)
        before = noise, weight
        noise = max(squares / max(num_rows - freedom, 1.0), floor)
        weight = max(length / max(freedom, SMALLEST), floor)
        if np.allclose(before, (noise, weight), rtol=TOLERANCE, atol=0):
            break
    return noise, weight


def _fitted(
    loss: Callable, X: Inputs, y: np.ndarray, num_outputs: int, level: float = 0.0
) -> Callable[[Inputs], np.ndarray]:
    """The linear predictor whose weights minimize the loss plus half their squared norm."""
    num_columns = X.shape[1]

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        table = flat.reshape(num_columns + 1, num_outputs)
        value, slopes = loss(X @ table[1:] + table[0], y)
        gradient = np.vstack([slopes.sum(axis=0), X.T @ slopes + table[1:]])
        return value + 0.5 * np.sum(table[1:] ** 2), gradient.ravel()

    from scipy.optimize import minimize  # slow to import, and not needed for numbers

    start = np.zeros((num_columns + 1, num_outputs))
    start[0] = level
    found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B")
    table = found.x.reshape(num_columns + 1, num_outputs)
    return lambda X: X @ table[1:] + table[0]


def _folds(num_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The training rows and the test rows of each fold; the shuffle is always the same."""
    order = np.random.default_rng(0).permutation(num_rows)
    number = NUM_FOLDS if num_rows >= FEW_ROWS else MORE_FOLDS
    for test in np.array_split(order, min(number, num_rows)):
        yield np.setdiff1d(order, test), test


def _count_size(y: Numbers, rates: Numbers) -> float:
    """The size r of a negative binomial with these rates: variance λ + λ²/r."""

    def score(log_size: float) -> float:
        return float(_log_count(y, rates, np.exp(log_size)).sum())

    (low, high), best = LOG_SIZES, LOG_SIZES[0]
    for _ in range(NUM_ZOOMS):
        log_sizes, step = np.linspace(low, high, NUM_SIZES, retstep=True)
        best = max(log_sizes, key=score)
        low, high = max(best - step, LOG_SIZES[0]), min(best + step, LOG_SIZES[1])
    return float(np.exp(best))


def _log_count(y: Numbers, rates: Numbers, size: float) -> Numbers:
    heads = gammaln(y + size) - gammaln(size) - gammaln(y + 1)
    return heads - size * np.log1p(rates / size) + y * (np.log(rates) - np.log(size + rates))
