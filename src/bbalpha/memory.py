"""Values that are computed once and stored, where the compiler would compute them again."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Shaped

UNLIKELY = 40503.0


@jax.custom_jvp
def in_memory(values: Shaped[Array, "..."], given: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
    """Return `values` as they are, from memory.

    XLA fuses what is cheap, or seems so, into everything that uses it: a draw, a hash, the
    parameters of all draws. Its CPU compiler drops `jax.lax.optimization_barrier` before it fuses,
    but a loop whose length it cannot know takes its start from memory, in place. This one has no
    turn, or one that changes nothing.

    Args:
        values: what to store.
        given: any array that is in memory already, for the length of the loop to depend on.

    >>> from bbalpha.memory import in_memory
    >>> print(jax.grad(lambda x: in_memory(x**2, x).sum())(jnp.array([1.0, 2.0])))
    [2. 4.]
    """
    first = jnp.sum(given.ravel()[:1])
    num_turns = (first == jnp.asarray(UNLIKELY, given.dtype)).astype(jnp.int32)

    def unchanged(turn: Array, values: Array) -> Array:
        return jnp.where(turn < 0, jnp.zeros_like(values), values)

    return jax.lax.fori_loop(0, num_turns, unchanged, values)


@in_memory.defjvp
def _in_memory_jvp(primals, tangents):
    return in_memory(*primals), tangents[0]
