"""The predictors of `tables.py`: peers from scikit-learn and NGBoost, and bbalpha's estimators.

Every method gets the same rows and returns a `Prediction`. Peers get numbers: texts become one-hot
columns, with all texts of fewer than five training rows (and texts not seen in training) pooled in
one column; gaps become the median of the column, with a column that marks them. All columns
are standardized for linear models and Gaussian processes.

Methods that give only a mean (forests, boosted trees) get one Gaussian deviation for all rows, the
root mean square of their residuals on training rows that they had not seen: out-of-bag for forests,
out of five folds for boosted trees (two above 50,000 rows). The probabilities of every peer are
raised to at least 1/(2 × training rows), so that a class without any costs a finite number of nats.

Some peers are too slow for large tables. Of more than 50,000 training rows, forests and NGBoost get
as many at random. Gaussian processes are left out above 2,000 rows (1,000 for classes).

For counts, a density per unit stands for the probability of a count, so that Gaussian
methods and Poisson methods can be compared.
"""

import contextlib
import io
import warnings
from typing import NamedTuple

import numpy as np
from scipy import stats
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    BayesianRidge,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
)
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

COVERAGE = 0.9
TAILS = ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2)
LEAST_COUNT = 5  # training rows of a text that has a column of its own
GP_ROWS = 2000  # of a Gaussian process
GP_CLASS_ROWS = 1000  # of one for classes, which takes longer
SLOW_ROWS = 50_000  # random training rows that forests and NGBoost get of larger tables
FOLDS = 5


class Prediction(NamedTuple):
    """The answer for the test rows: numbers have a mean, classes have probabilities."""

    log_densities: np.ndarray  # of the true targets, in nats and in the target's units
    mean: np.ndarray | None = None
    deviation: np.ndarray | None = None
    interval: np.ndarray | None = None  # 90 %, of shape (rows, 2)
    probabilities: np.ndarray | None = None


class Problem(NamedTuple):
    """The rows of one split."""

    kind: str
    train_inputs: object  # a DataFrame, or an encoded matrix
    train_target: np.ndarray
    test_inputs: object
    test_target: np.ndarray
    seed: int

    @property
    def num_classes(self):
        return int(max(self.train_target.max(), self.test_target.max())) + 1


def encoded(problem):
    """The problem with matrices of numbers instead of DataFrames."""
    frame = problem.train_inputs
    texts = [name for name in frame if frame[name].dtype.kind not in "biuf"]
    numbers = [name for name in frame if name not in texts]
    gaps = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    one_hot = OneHotEncoder(
        min_frequency=LEAST_COUNT, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    encoder = ColumnTransformer([("numbers", gaps, numbers), ("texts", one_hot, texts)])
    return problem._replace(
        train_inputs=encoder.fit_transform(frame).astype(float),
        test_inputs=encoder.transform(problem.test_inputs).astype(float),
    )


def subsampled(problem, most):
    """The problem with at most so many training rows, chosen at random."""
    if len(problem.train_target) <= most:
        return problem
    order = np.random.default_rng(problem.seed).permutation(len(problem.train_target))[:most]
    return problem._replace(
        train_inputs=problem.train_inputs[order], train_target=problem.train_target[order]
    )


def of_distribution(distribution, target, *, is_counts=False):
    """The prediction of a frozen distribution of scipy."""
    log_prob = distribution.logpmf if is_counts else distribution.logpdf
    return Prediction(
        log_prob(target),
        distribution.mean(),
        distribution.std(),
        np.stack([distribution.ppf(tail) for tail in TAILS], axis=-1),
    )


def gaussian(problem, mean, deviation):
    mean = np.broadcast_to(mean, problem.test_target.shape)
    deviation = np.broadcast_to(deviation, problem.test_target.shape)
    return of_distribution(stats.norm(mean, deviation), problem.test_target)


def of_classes(problem, classes, found):
    """The prediction of class probabilities; classes not seen in training have none."""
    probabilities = np.zeros((len(found), problem.num_classes))
    probabilities[:, np.asarray(classes, int)] = found
    probabilities = np.maximum(probabilities, 0.5 / len(problem.train_target))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    return scored_classes(problem, probabilities)


def scored_classes(problem, probabilities):
    chosen = probabilities[np.arange(len(probabilities)), problem.test_target]
    return Prediction(np.log(chosen), probabilities=probabilities)


def of_classifier(problem, model):
    model.fit(problem.train_inputs, problem.train_target)
    return of_classes(problem, model.classes_, model.predict_proba(problem.test_inputs))


def constant(problem):
    """A Gaussian with the training rows' moments, or class frequencies with one pseudo-count."""
    if problem.kind in ("regression", "counts"):
        return gaussian(problem, problem.train_target.mean(), problem.train_target.std(ddof=1))
    counts = np.bincount(problem.train_target, minlength=problem.num_classes) + 1.0
    probabilities = np.tile(counts / counts.sum(), (len(problem.test_target), 1))
    return scored_classes(problem, probabilities)


def bayesian_ridge(problem):
    model = make_pipeline(StandardScaler(), BayesianRidge())
    model.fit(problem.train_inputs, problem.train_target)
    return gaussian(problem, *model.predict(problem.test_inputs, return_std=True))


def poisson(problem):
    """A Poisson regression with a standard normal prior on standardized columns."""
    model = make_pipeline(
        StandardScaler(), PoissonRegressor(alpha=1 / len(problem.train_target), max_iter=1000)
    )
    model.fit(problem.train_inputs, problem.train_target)
    rate = np.maximum(model.predict(problem.test_inputs), 1e-6)
    return of_distribution(stats.poisson(rate), problem.test_target, is_counts=True)


def logistic(problem):
    return of_classifier(
        problem, make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    )


def logistic_cv(problem):
    """With C chosen by cross-validated log-likelihood."""
    folds = min(FOLDS, int(np.bincount(problem.train_target).min()))
    model = LogisticRegressionCV(
        cv=max(folds, 2),
        scoring="neg_log_loss",
        max_iter=2000,
        l1_ratios=(0.0,),
        use_legacy_attributes=False,
    )
    return of_classifier(problem, make_pipeline(StandardScaler(), model))


def gp(problem):
    """A Gaussian process: squared exponential with a scale per column, linear, white noise."""
    classes = problem.kind in ("binary", "multiclass")
    if len(problem.train_target) > (GP_CLASS_ROWS if classes else GP_ROWS):
        return None
    width = problem.train_inputs.shape[1]
    bounds = (1e-2, 1e3)
    kernel = ConstantKernel() * RBF(np.full(width, np.sqrt(width)), bounds)
    kernel += ConstantKernel(0.1, (1e-6, 1e3)) * DotProduct()
    if classes:
        model = GaussianProcessClassifier(kernel, random_state=problem.seed)
        return of_classifier(problem, make_pipeline(StandardScaler(), model))
    kernel += WhiteKernel(0.1, (1e-4, 1e2))
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=problem.seed)
    model = make_pipeline(StandardScaler(), model)
    model.fit(problem.train_inputs, problem.train_target)
    return gaussian(problem, *model.predict(problem.test_inputs, return_std=True))


def forest(problem):
    problem = subsampled(problem, SLOW_ROWS)
    if problem.kind in ("binary", "multiclass"):
        return of_classifier(problem, RandomForestClassifier(random_state=problem.seed))
    model = RandomForestRegressor(oob_score=True, random_state=problem.seed)
    model.fit(problem.train_inputs, problem.train_target)
    residuals = problem.train_target - model.oob_prediction_
    return gaussian(problem, model.predict(problem.test_inputs), root_mean_square(residuals))


def boosting(problem):
    if problem.kind in ("binary", "multiclass"):
        return of_classifier(problem, HistGradientBoostingClassifier(random_state=problem.seed))
    model = HistGradientBoostingRegressor(random_state=problem.seed)
    inputs, target = problem.train_inputs, problem.train_target
    folds = FOLDS if len(target) <= SLOW_ROWS else 2
    residuals = target - cross_val_predict(clone(model), inputs, target, cv=folds)
    mean = model.fit(inputs, target).predict(problem.test_inputs)
    return gaussian(problem, mean, root_mean_square(residuals))


def root_mean_square(residuals):
    return np.sqrt(np.mean(residuals**2))


def ngboost(problem):
    """Natural gradient boosting, stopped by a held-out tenth of the training rows."""
    from ngboost import NGBClassifier, NGBRegressor
    from ngboost.distns import Normal, Poisson, k_categorical

    problem = subsampled(problem, SLOW_ROWS)
    settings = {
        "n_estimators": 2000,
        "early_stopping_rounds": 50,
        "validation_fraction": 0.1,
        "random_state": problem.seed,
        "verbose": False,
    }
    if problem.kind in ("binary", "multiclass"):
        model = NGBClassifier(Dist=k_categorical(problem.num_classes), **settings)
        best = best_iteration(model, problem.train_inputs, problem.train_target)
        found = model.predict_proba(problem.test_inputs, max_iter=best)
        return of_classes(problem, np.arange(problem.num_classes), found)
    is_counts = problem.kind == "counts"
    model = NGBRegressor(Dist=Poisson if is_counts else Normal, **settings)
    target = problem.train_target.astype(int) if is_counts else problem.train_target
    best = best_iteration(model, problem.train_inputs, target)
    distribution = model.pred_dist(problem.test_inputs, max_iter=best)
    if is_counts:
        return of_distribution(stats.poisson(distribution.mean()), problem.test_target, is_counts=1)
    return gaussian(problem, distribution.params["loc"], distribution.params["scale"])


def best_iteration(model, inputs, target):
    """Fit NGBoost, which prints even when it should not; how many trees did best held-out."""
    with contextlib.redirect_stdout(io.StringIO()):
        model.fit(inputs, target)
    return model.best_val_loss_itr + 1


# The settings of bbalpha's estimators by the name of a method; a kind of target may have its own.
OURS = {
    "ours": {},
    "ours-poisson": {"counts": {"likelihood": "poisson"}},
    "ours-vb": {"alpha": 0.0},
}


def settings_of(name, kind, extra):
    """The arguments of the estimator; extra settings override the method's own."""
    found = {}
    for settings in (OURS[name], extra):
        kinds = ("regression", "counts", "binary", "multiclass")
        found |= {key: value for key, value in settings.items() if key not in kinds}
        found |= settings.get(kind, {})
    return {key: tuple(value) if isinstance(value, list) else value for key, value in found.items()}


def ours(problem, settings):
    """An estimator of bbalpha. With a setting `encoder`, it gets the DataFrame as it is."""
    import bbalpha as bb

    if "encoder" not in settings:
        problem = encoded(problem)
    is_classes = problem.kind in ("binary", "multiclass")
    kind = bb.BBAlphaClassifier if is_classes else bb.BBAlphaRegressor
    model = kind(random_state=problem.seed, **settings)
    model.fit(problem.train_inputs, problem.train_target)
    if is_classes:
        probabilities = np.full((len(problem.test_target), problem.num_classes), 1e-300)
        probabilities[:, model.classes_] = model.predict_proba(problem.test_inputs)
        return scored_classes(problem, np.maximum(probabilities, 1e-300))
    mean, deviation = model.predict(problem.test_inputs, return_std=True)
    return Prediction(
        model.score_samples(problem.test_inputs, problem.test_target),
        mean,
        deviation,
        model.predict_interval(problem.test_inputs, COVERAGE),
    )


NUMBERS, CLASSES = ("regression", "counts"), ("binary", "multiclass")
# In order of cost: the function, and the kinds of target that it is for.
PEERS = {
    "constant": (constant, NUMBERS + CLASSES),
    "bayesian-ridge": (bayesian_ridge, NUMBERS),
    "poisson": (poisson, ("counts",)),
    "logistic": (logistic, CLASSES),
    "logistic-cv": (logistic_cv, CLASSES),
    "boosting": (boosting, NUMBERS + CLASSES),
    "forest": (forest, NUMBERS + CLASSES),
    "ngboost": (ngboost, NUMBERS + CLASSES),
    "gp": (gp, NUMBERS + CLASSES),
}


def predict(name, problem, settings):
    """The prediction of a method, or None if it is not for this problem."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence, mostly
        if name in OURS:
            return ours(problem, settings_of(name, problem.kind, settings))
        method, kinds = PEERS[name]
        if problem.kind not in kinds:
            return None
        return method(problem if method is constant else encoded(problem))
