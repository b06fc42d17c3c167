"""Minibatches: the rows of an epoch in random order, cut into batches of one length."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key


def minibatches(
    key: Key[Array, ""], num_data: int, batch_size: int
) -> tuple[Int[Array, "batches size"], Float[Array, "batches size"]]:
    """The rows of each minibatch of an epoch, and how many data points each entry stands for.

    An entry of a batch S stands for N/|S| data points. A short last batch is padded with row 0 at
    weight 0.

    >>> from bbalpha_paper.experiments.minibatches import minibatches
    >>> rows, weights = minibatches(jax.random.key(0), num_data=5, batch_size=3)
    >>> sorted(rows[weights > 0].tolist())
    [0, 1, 2, 3, 4]
    >>> weights.round(3).tolist()[1]
    [2.5, 2.5, 0.0]
    """
    num_batches = -(-num_data // batch_size)
    order = jax.random.permutation(key, num_data)
    rows = jnp.pad(order, (0, num_batches * batch_size - num_data)).reshape(num_batches, batch_size)
    is_real = (jnp.arange(rows.size) < num_data).reshape(rows.shape)
    sizes = is_real.sum(axis=1, keepdims=True)
    return rows, jnp.where(is_real, num_data / sizes, 0.0)
