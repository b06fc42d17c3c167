"""Estimators that take no time to fit."""

import jax
import jax.numpy as jnp
import numpy as np

import bbalpha as bb
from bbalpha.interfaces.inputs import InputUnits
from bbalpha.interfaces.settings import COUNTS


def invented(estimator, num_features=2, num_outputs=None, classes=None, names=None):
    """The estimator with an invented posterior, which takes less time than a fitted one."""
    stream = np.random.RandomState(0)
    mean, scale = stream.normal(size=num_features), stream.uniform(1, 2, num_features)
    axes = np.eye(num_features)[::-1]
    estimator.input_units_ = InputUnits(mean, scale, mean - 5 * scale, mean + 6 * scale, axes)
    estimator.n_features_in_, estimator.encoder_ = num_features, None
    if names is not None:
        estimator.feature_names_in_ = np.array(names, object)
    if classes is not None:
        estimator.classes_ = np.asarray(classes)
        estimator.target_units_ = bb.Standardizer(np.zeros(1), np.ones(1))
    else:
        estimator._is_vector, estimator.n_outputs_ = num_outputs is None, num_outputs or 1
        _, estimator.target_units_ = bb.standardize(stream.normal(size=(9, estimator.n_outputs_)))
        if estimator.likelihood in COUNTS:
            ones = np.ones(estimator.n_outputs_)
            estimator.target_units_ = bb.Standardizer(0 * ones, ones)
    estimator._seed, estimator._memory, estimator._memory_prior = 7, None, None
    network = estimator._network()
    layout = bb.Layout.of(network.shapes())
    likelihood = estimator._new_likelihood(np.zeros(network.num_outputs))
    mean = jnp.asarray(stream.normal(0, 0.1, layout.size), jnp.float32)
    estimator.posterior_ = bb.Posterior(
        q=bb.DiagonalGaussian(mean, mean - 4),
        prior=bb.DiagonalGaussian(0 * mean, 0 * mean),
        hyperparams=jax.tree.map(lambda leaf: leaf - 0.3, likelihood),
        alpha=jnp.array(0.5),
        num_data=jnp.array(30.0),
        energy=jnp.array(12.5),
        layout=layout,
        info=bb.FitInfo((3.5, 2.5), ((1, -2.0), (2, -1.5)), 8, 0.25),
    )
    estimator.n_iter_ = 2
    return estimator
