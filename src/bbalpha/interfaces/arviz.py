"""`to_arviz`: a posterior in the form that ArviZ's plots, summaries and comparisons take."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from bbalpha.data import Dataset
from bbalpha.engine.checks import as_keys, check_counts
from bbalpha.engine.layout import name_of
from bbalpha.interfaces.estimator import Estimator
from bbalpha.interfaces.inference_data import Groups, inference_data
from bbalpha.interfaces.network import log_likelihood_of
from bbalpha.posterior import Posterior
from bbalpha.reweighting import Reweighted

TARGET = "y"  # the name of the data where there is none


def to_arviz(
    fitted: Any,
    X: Any = None,
    y: Any = None,
    *,
    key: Key[Array, ""],
    num_samples: int = 1000,
    log_likelihood: Any = None,
    data: PyTree = None,
    posterior_predictive: dict[str, Any] | None = None,
    observed_data: dict[str, Any] | None = None,
) -> Any:
    """The draws of a fit as an ArviZ object: `InferenceData` in 0.23, `DataTree` from 1.0 on.

    There is one chain of independent draws. They are draws of q, not of the exact posterior, so
    `az.loo` is only as good as q; `posterior.diagnose` tells how good that is.

    Args:
        fitted: a posterior from `bb.fit`, the result of `posterior.reweighted(…)`, an estimator, or
            a posterior from `bbalpha.interfaces.numpyro`.
        X: for an estimator, the inputs of the rows to score and predict.
        y: for an estimator, their targets.
        key: randomness of the draws.
        num_samples: number of draws.
        log_likelihood: for a posterior from `bb.fit`, the function that was given to `fit`.
        data: for such a posterior, the data whose log-likelihoods to store.
        posterior_predictive: for such a posterior, draws of new data by name, each an array of
            `num_samples` draws. `posterior.predict` with the same key uses the same parameters.
        observed_data: for such a posterior, the data to compare these draws with, by name.

    Returns:
        The groups posterior, log_likelihood, posterior_predictive and observed_data, as far as the
        arguments allow.

    Raises:
        ImportError: if ArviZ is missing or too old.
        TypeError: if `fitted` is something else.
        ValueError: if an argument breaks its rule.

    >>> from bbalpha.interfaces.arviz import to_arviz
    >>> q = bb.DiagonalGaussian(jnp.zeros(3), jnp.zeros(3))
    >>> layout, one = bb.Layout.of({"weights": jnp.zeros(3)}), jnp.ones(())
    >>> posterior = bb.Posterior(q, q, None, one, one, one, layout)
    >>> found = to_arviz(posterior, key=jax.random.key(0), num_samples=100)
    >>> found.posterior["weights"].shape
    (1, 100, 3)
    """
    check_counts(num_samples=num_samples)
    key = as_keys(key, 0, "key")
    given = {
        "posterior_predictive": posterior_predictive or {},
        "observed_data": observed_data or {},
    }
    attributes: dict[str, Any] = {"inference_library": "bbalpha"}
    if isinstance(fitted, Posterior):
        attributes["alpha"] = float(fitted.alpha)
        groups = _of_posterior(fitted, log_likelihood, data, key, num_samples) | given
    elif isinstance(fitted, Reweighted):
        groups = {"posterior": _by_name(fitted.sample(num_samples, key=key))} | given
    elif isinstance(fitted, Estimator):
        attributes["alpha"] = float(fitted.posterior_.alpha)
        groups = _of_estimator(fitted, X, y, key, num_samples)
    elif type(fitted).__name__ == "ModelPosterior":  # by name, so that NumPyro is not needed here
        groups = fitted.groups(num_samples, key=key)
    else:
        raise TypeError(
            "fitted must be a posterior of bbalpha, an estimator or a result of "
            f"bbalpha.interfaces.numpyro; got {type(fitted).__name__}."
        )
    _check_draws(groups, num_samples)
    return inference_data(groups, attributes)


def _of_posterior(
    posterior: Posterior, log_likelihood: Any, data: PyTree, key: Array, num_samples: int
) -> Groups:
    """The draws of a posterior and, if `log_likelihood` is given, log-likelihoods of the data."""
    groups = {"posterior": _by_name(posterior.sample(num_samples, key=key))}
    if (log_likelihood is None) != (data is None):
        raise ValueError(
            "log_likelihood and data must be given together; got only "
            f"{'data' if log_likelihood is None else 'log_likelihood'}."
        )
    if log_likelihood is not None:
        extra = () if posterior.hyperparams is None else (posterior.hyperparams,)
        groups["log_likelihood"] = {
            TARGET: posterior.predict(
                lambda params, rows: log_likelihood(params, rows, *extra),
                data,
                key=key,
                num_samples=num_samples,
            )
        }
    return groups


def _of_estimator(estimator: Any, X: Any, y: Any, key: Array, num_samples: int) -> Groups:
    """Weights, log-likelihoods in the units of y, draws of targets, and the targets."""
    if X is None or y is None:
        raise ValueError("X and y must be given for an estimator; got None.")
    inputs, targets = estimator._validated(X, y, reset=False)
    rows = Dataset(
        estimator.input_units_.transform(inputs), estimator.target_units_.transform(targets)
    )
    log_likelihood = log_likelihood_of(estimator.activation)
    groups = _of_posterior(estimator.posterior_, log_likelihood, rows, key, num_samples)
    log_scale = float(estimator.target_units_.log_scale)
    densities = np.asarray(groups["log_likelihood"][TARGET]) - log_scale
    seed = int(jax.random.randint(key, (), 0, 2**31 - 1))
    draws = np.moveaxis(estimator.sample_y(X, num_samples, seed), -1, 0)
    return groups | {
        "log_likelihood": {TARGET: densities},
        "posterior_predictive": {TARGET: draws},
        "observed_data": {TARGET: np.asarray(y)},
    }


def _by_name(draws: PyTree) -> dict[str, Array]:
    """The leaves of a tree of draws by their names."""
    leaves = jax.tree_util.tree_leaves_with_path(draws)
    return {name_of(jax.tree_util.keystr(path), ()): leaf for path, leaf in leaves}


def _check_draws(groups: Groups, num_samples: int) -> None:
    """Raise unless there are as many predictive draws as draws of the posterior."""
    for name, values in groups.get("posterior_predictive", {}).items():
        if np.shape(values)[:1] != (num_samples,):
            raise ValueError(
                f"posterior_predictive['{name}'] must begin with an axis of {num_samples} draws, "
                f"as num_samples says; got shape {np.shape(values)}."
            )
