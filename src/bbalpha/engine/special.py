"""Special functions for jax: log Φ with an exact derivative, compiled distribution functions."""

import jax
from jaxtyping import Array, Float

from bbalpha.engine import count_probabilities, probabilities

student_t_cdf = jax.jit(probabilities.student_t_cdf)
poisson_tails = jax.jit(count_probabilities.poisson_tails)
_log_ndtr_and_slope = jax.jit(probabilities.log_ndtr_and_slope)


@jax.custom_jvp
def log_ndtr(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return log Φ(x); its derivative φ(x)/Φ(x) is accurate to rounding, however far x is from 0.

    The derivative of `jax.scipy.special.log_ndtr` is exp(log φ − log Φ), a difference of numbers
    near −x²/2. In float32 it is off by 6e-5 near −40 and by 2e-3 at −1,000, and at −10⁵ it is 1
    instead of 10⁵; unscaled inputs reach such values. Here, value and derivative come from Mills'
    ratio R(t) = Φ(−t)/φ(t), which is smooth from 0 to infinity, so one polynomial serves
    everywhere.

    >>> print(f"{jax.grad(bb.log_ndtr)(jnp.array(-1e5)):.6g}")
    100000
    """
    return _log_ndtr_and_slope(x)[0]


@log_ndtr.defjvp
def _log_ndtr_jvp(primals, tangents):
    (x,), (tangent,) = primals, tangents
    value, slope = _log_ndtr_and_slope(x)
    return value, slope * tangent
