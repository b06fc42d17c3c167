"""Degrees of freedom of a classifier: of its weights together, and of each by itself.

A q of independent weights is as wide in every weight as if the others stood still. Many weights of
a network can do the same work, so the outputs of q vary more than those of networks that fit the
data, and a row seems to pull more on its output than it does. How much more is the ratio of two
sums over rows, of the Fisher information of the outputs times their variance: with the covariance
(P + F)⁻¹ of all weights, where P is the precision of the prior and F the information in the rows,
the sum counts the degrees of freedom of the network; with the variances of q, those of its weights
taken one by one.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bbalpha.engine.layout import Layout
from bbalpha.interfaces.network import model_of
from bbalpha.likelihoods import Likelihood

MOST_SLOPES = 1000  # rows times classes that are looked at
MOST_NUMBERS = 2**24  # of slopes: 64 MiB
LARGEST_LEVERAGE = 0.5  # of a row; beyond, leaving it out is no small change


def real_pull(model: Any, inputs: Float[np.ndarray, "rows columns"]) -> float:
    """The pull of a row on its output, relative to what a q of independent weights says.

    It is the ratio of the two sums, divided by 1 − h for the leverage h of a row, which has
    learned from itself, too.

    Args:
        model: A fitted classifier.
        inputs: Rows that it was fitted to, as the network takes them.
    """
    posterior, num_classes = model.posterior_, len(model.classes_)
    most = min(MOST_SLOPES, MOST_NUMBERS // posterior.layout.size) // num_classes
    num_rows = min(len(inputs), max(1, most))
    rows = inputs[np.linspace(0, len(inputs) - 1, num_rows).astype(int)]
    network = posterior.layout, model_of(model.activation), num_classes
    slopes = _slopes(network, posterior.q.mean, posterior.hyperparams, rows)
    slopes = np.asarray(slopes, np.float64)
    prior, own = (np.asarray(x.variance, np.float64) for x in (posterior.prior, posterior.q))
    together = freedom_together(slopes * np.sqrt(prior), float(posterior.num_data) / num_rows)
    alone = max(float(np.sum(slopes**2 @ own)), np.finfo(float).tiny)
    return together / alone / (1 - min(together / num_rows, LARGEST_LEVERAGE))


def freedom_together(scaled: Float[np.ndarray, "slopes params"], repeats: float) -> float:
    """Σ sᵀ (I + repeats Σ s sᵀ)⁻¹ s of the rows s: slopes relative to the prior's deviations."""
    is_wide = scaled.shape[0] < scaled.shape[1]
    sizes = np.linalg.eigvalsh(scaled @ scaled.T if is_wide else scaled.T @ scaled)
    sizes = np.maximum(sizes, 0)
    return float(np.sum(sizes / (1 + repeats * sizes)))


@eqx.filter_jit
def _slopes(
    network: tuple[Layout, Callable, int],
    mean: Float[Array, " params"],
    likelihood: Likelihood,
    rows: Float[Any, "rows columns"],
) -> Float[Array, "slopes params"]:
    """√p ∂ log p/∂θ at the mean of q for all rows and classes; Σ s sᵀ is the Fisher information."""
    layout, model, num_classes = network
    labels = jnp.arange(num_classes)[:, None]

    def roots(params: Float[Array, " params"], row: Float[Array, " columns"]) -> Array:
        outputs = model(layout.unflatten(params), row[None])
        outputs = jnp.broadcast_to(outputs, (num_classes, outputs.shape[-1]))
        return 2 * jnp.exp(0.5 * likelihood.log_prob(outputs, labels))

    slopes = jax.vmap(jax.jacrev(roots), (None, 0))(mean, jnp.asarray(rows, mean.dtype))
    return slopes.reshape(-1, mean.size)
