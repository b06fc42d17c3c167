"""Values that are computed once and stored, where the compiler would compute them repeatedly.

XLA fuses whatever looks cheap into each of its uses: a hash, a draw, the parameters of all draws.
On CPU, it removes `jax.lax.optimization_barrier` before fusing. But it never looks inside a loop of
unknown length, and such a loop reads its initial values from memory, so a loop forces them to be
stored. On other platforms, a loop costs more than recomputing, so nothing is done there.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Shaped

UNLIKELY = 40503


def once(function: Callable[[Array], Array], words: Array) -> Array:
    """Return `function(words)`, computed inside a loop, so that its constants stay inside too.

    >>> from bbalpha.engine.materialize import once
    >>> once(jnp.square, jnp.arange(3)).tolist()
    [0, 1, 4]
    """
    function = jax.jit(function)  # traced once for the shape and the two platforms

    def loop(words: Array) -> Array:
        shape = jax.eval_shape(function, words)
        start = jnp.zeros(shape.shape, shape.dtype)

        def turn(carry: tuple) -> tuple:
            _, goes_on, _ = carry
            return goes_on, jnp.array(False), function(words)  # a second turn would do the same

        start = (jnp.array(True), _is_unlikely(words), start)
        return jax.lax.while_loop(lambda carry: carry[0], turn, start)[2]

    return jax.lax.platform_dependent(words, cpu=loop, default=function)


@jax.custom_jvp
def in_memory(values: Shaped[Array, "..."], given: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
    """Return `values` and their derivatives unchanged, through a loop that does nothing.

    Args:
        values: the array to store.
        given: numbers or 32-bit words already in memory; the length of the loop depends on them.

    >>> from bbalpha.engine.materialize import in_memory
    >>> print(jax.grad(lambda x: in_memory(x**2, x).sum())(jnp.array([1.0, 2.0])))
    [2. 4.]
    """

    def turn(carry: tuple) -> tuple:
        goes_on, values = carry  # always true here, but the compiler cannot know that
        return jnp.array(False), jnp.where(goes_on, values, jnp.zeros_like(values))

    def loop(values: Array, given: Array) -> Array:
        start = (_is_unlikely(given), values)
        return jax.lax.while_loop(lambda carry: carry[0], turn, start)[1]

    return jax.lax.platform_dependent(values, given, cpu=loop, default=lambda values, _: values)


@in_memory.defjvp
def _in_memory_jvp(primals, tangents):
    return in_memory(*primals), tangents[0]


def _is_unlikely(given: Array) -> Array:
    """A condition that is almost never true, although the compiler cannot know that."""
    return jnp.any(given.ravel()[:1] == jnp.asarray(UNLIKELY, given.dtype))
