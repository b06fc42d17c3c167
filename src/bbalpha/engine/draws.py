"""Draws: a function of many draws of q, with one chunk of them in memory at a time."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from bbalpha.engine.materialize import in_memory, once

Noise = Key[Array, " draws"] | Float[Array, "draws noise"]
"""The noise of each draw, or a key per draw from which its noise is drawn when it is needed."""

CHUNK_ELEMENTS = 2**19  # 2 MiB of float32, the cache of a core
WHOLE_ELEMENTS = 2**21  # 8 MiB; below this, recomputing costs more than the cache saves
TYPICAL_WIDTH = 64


@runtime_checkable
class Reparameterized(Protocol):
    """Something to draw from: noise that does not depend on it, and a map θ = g(ε)."""

    def noise(self, key: Key[Array, ""]) -> Float[Array, " noise"]:
        """One draw of ε."""
        ...

    def transform(self, noise: Float[Array, " noise"]) -> Float[Array, " params"]:
        """The parameters θ = g(ε)."""
        ...


def map_draws(
    function: Callable[[Float[Array, " params"], Float[Array, " noise"]], PyTree],
    q: Reparameterized,
    noise: Noise,
    sample_chunk: int | None = None,
    kept_products: int = 0,
) -> PyTree:
    """`function(params, noise)` of every draw, stacked along a leading axis of draws.

    Each key of Threefry determines the noise of its draw, so the chunk size affects time and memory
    but not the result. The backward pass recomputes each chunk instead of storing it. Matrix
    products, which take most of the time, are stored if they amount to at most `kept_products`
    numbers for all draws together.

    Args:
        function: called with the parameters and the noise of one draw.
        q: where the draws come from.
        noise: the noise of every draw, or a key per draw.
        sample_chunk: how many draws to hold in memory; all of them by default.
        kept_products: how many numbers to keep for the backward pass.
    """

    def of_noise(noise: Float[Array, "draws noise"]) -> PyTree:
        params = jax.vmap(q.transform)(noise)  # θₖ = g(εₖ)
        if num_chunks == 1:  # a checkpointed chunk could not be differentiated twice in reverse
            params = in_memory(params, noise)
        return jax.vmap(function)(params, noise)

    def take(start: int | Int[Array, ""]) -> Float[Array, "draws noise"]:
        chunk = jax.lax.dynamic_slice_in_dim(noise, start, size)
        return draw_noise(q, chunk) if _are_keys(chunk) else chunk

    num_samples = len(noise)
    size = min(sample_chunk or num_samples, num_samples)
    num_chunks = -(-num_samples // size)
    if num_chunks == 1:
        return of_noise(take(0))
    if num_samples % size:  # repeat draws to fill the last chunk; they are dropped below
        noise = noise[jnp.arange(num_chunks * size) % num_samples]
    policy = jax.checkpoint_policies.nothing_saveable
    if kept_products > 0:
        num_products = num_chunks * _size_of_products(of_noise, jax.eval_shape(take, 0))
        if num_products <= kept_products:
            policy = jax.checkpoint_policies.dots_saveable
    # Mapping over the starts, because XLA would copy the noise if it were mapped in chunks.
    of_chunk = jax.checkpoint(lambda start: of_noise(take(start)), prevent_cse=False, policy=policy)
    results = jax.lax.map(of_chunk, jnp.arange(0, len(noise), size))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:num_samples], results)


def draw_noise(q: Reparameterized, keys: Key[Array, " draws"]) -> Float[Array, "draws noise"]:
    """The noise of each key, computed once however often it is used."""
    impl = jax.random.key_impl(keys)

    def draw(words: Array) -> Array:
        return jax.vmap(q.noise)(jax.random.wrap_key_data(words, impl=impl))

    return once(draw, jax.random.key_data(keys))


def chunk_of_draws(
    num_params: int, num_rows: int, num_samples: int, width: int = TYPICAL_WIDTH
) -> int:
    """How many draws to process at once: all if they are small, else as many as a cache holds.

    A draw counts as its parameters plus `width` numbers per row, by default the hidden units of a
    typical layer.
    """
    elements = num_params + width * num_rows
    if num_samples * elements <= WHOLE_ELEMENTS:
        return num_samples
    num_chunks = -(-num_samples // max(1, CHUNK_ELEMENTS // elements))
    return -(-num_samples // num_chunks)


def largest_array(function: Callable[..., PyTree], *args: PyTree) -> int:
    """The size of the largest array that a function computes, which is traced for it.

    >>> from bbalpha.engine.draws import largest_array
    >>> largest_array(lambda x: jnp.sum(x[:, None] * x[None]), jnp.ones(3))
    9
    """
    sizes = _sizes(jax.make_jaxpr(function)(*args).jaxpr)
    return max(sizes, default=0)


def _sizes(jaxpr: Any) -> Iterator[int]:
    """The sizes of all results in a program, those of the programs inside it included."""
    for equation in jaxpr.eqns:
        yield from (getattr(result.aval, "size", 0) for result in equation.outvars)
        for leaf in jax.tree.leaves(list(equation.params.values())):
            if hasattr(inner := getattr(leaf, "jaxpr", leaf), "eqns"):
                yield from _sizes(inner)


def _are_keys(noise: Noise) -> bool:
    return jnp.issubdtype(noise.dtype, jax.dtypes.prng_key)


def _size_of_products(function: Callable[[Array], PyTree], noise: jax.ShapeDtypeStruct) -> int:
    """Size of the matrix products that the backward pass needs."""

    def num_kept(policy: Callable[..., bool]) -> int:
        function_again = jax.checkpoint(function, policy=policy)
        kept = jax.eval_shape(lambda noise: jax.vjp(function_again, noise)[1], noise)
        return sum(leaf.size for leaf in jax.tree.leaves(kept))

    policies = jax.checkpoint_policies
    return num_kept(policies.dots_saveable) - num_kept(policies.nothing_saveable)
