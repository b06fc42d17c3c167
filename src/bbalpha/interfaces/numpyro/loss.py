"""`BBAlphaELBO`: the BB-α energy as a loss for `numpyro.infer.SVI`.

    Ê(q) = − Σ_{n∈S} wₙ M_α(tₖₙ),   wₙ = N/|S|

`ratios` computes the log-ratios tₖₙ from the draws of the guide; the energy is bbalpha's own.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeGuard

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float
from numpyro.infer import ELBO
from numpyro.primitives import mutable

from bbalpha.energy import Number, energy_of_ratios, without_padding
from bbalpha.engine.checks import (
    check_alpha,
    check_counts,
    check_num_data,
    check_optional_counts,
    warn,
)
from bbalpha.interfaces.numpyro.guides import check_guide
from bbalpha.interfaces.numpyro.moving_supports import check_supports
from bbalpha.interfaces.numpyro.ratios import Ratios, ratios_of
from bbalpha.interfaces.numpyro.traces import Program, terms_of_draw

NUM_PARTICLES = 32
STEPS = "_bbalpha_steps"  # the mutable site that counts steps
PLATES = 0x706C6174  # folded into the key of a step, to draw the indices of plates

Schedule = Callable[[Array], Number]


class OfDraws(NamedTuple):
    """The results of some draws of the guide: one row per draw, one column per data point."""

    log_ratios: Float[Array, "draws data"]
    weights: Float[Array, "..."]  # of the data points
    log_likelihoods: Float[Array, "draws data"]
    without_data: Float[Array, "..."]  # log-ratios of latent sites that have no data
    mutable: dict[str, Any]


class BBAlphaELBO(ELBO):
    """The BB-α energy of a guide, to be minimized by `numpyro.infer.SVI`; lower is better.

    Ê(q) = − (N/|S|) Σ_{n∈S} M_α(log p(xₙ|θₖ) − log f(θₖ)),   log f = (log q − log p₀)/N

    The data points are the indices of the plates around the observed sites. A latent site inside
    such a plate belongs to its data point, so its log q − log p is not divided by N. At α = 0 the
    loss equals `Trace_ELBO`, draw by draw. All particles see the same minibatch.

    Args:
        alpha: the power, in bbalpha's convention: 0 is variational Bayes, 1 is like expectation
            propagation (`RenyiELBO` counts the other way). Or a function from the step to the
            power; then wrap the guide in `count_steps`.
        num_particles: K, the draws of the guide per step.
        vectorize_particles: True to evaluate all particles at once, False to evaluate them one by
            one, so that memory does not grow with their number, or a function that maps another
            function over their keys.
        particle_chunk: the number of particles to hold in memory; all by default. The result does
            not depend on it.
        num_data: N, if the observed sites lie in no plate; then their first axis is the data
            points.

    Raises:
        ValueError: if an argument breaks its rule.
        TypeError: if an argument is of the wrong kind.

    >>> import numpyro, numpyro.distributions as dist, optax
    >>> from numpyro.infer import SVI
    >>> from numpyro.infer.autoguide import AutoNormal
    >>> from bbalpha.interfaces.numpyro import BBAlphaELBO
    >>> def model(data):
    ...     mean = numpyro.sample("mean", dist.Normal(0, 1))
    ...     with numpyro.plate("data", len(data)):
    ...         numpyro.sample("x", dist.Normal(mean, 1), obs=data)
    >>> data = jnp.array([0.5, 1.5, 2.5])  # the exact posterior is N(1.125, ¼)
    >>> svi = SVI(model, AutoNormal(model), optax.adam(0.03), BBAlphaELBO(alpha=0.5))
    >>> result = svi.run(jax.random.key(0), 1000, data, progress_bar=False)
    >>> print(f"{result.params['mean_auto_loc']:.1f}")
    1.1
    """

    def __init__(
        self,
        alpha: float | Array | Schedule = 0.5,
        num_particles: int = NUM_PARTICLES,
        vectorize_particles: Any = True,
        *,
        particle_chunk: int | None = None,
        num_data: int | None = None,
    ):
        check_counts(num_particles=num_particles)
        check_optional_counts(particle_chunk=particle_chunk)
        if num_data is not None:
            check_num_data(num_data)
        check_alpha(alpha, jnp.inf, num_samples=2)
        if num_particles == 1 and _is_known(alpha) and alpha != 0:
            warn(
                "num_particles should exceed 1 when alpha is not 0, because with one particle the "
                f"loss does not depend on alpha; got num_particles=1 with alpha={alpha}."
            )
        self.alpha = alpha
        self.particle_chunk = particle_chunk
        self.num_data = num_data
        super().__init__(num_particles, vectorize_particles)

    def loss(
        self, rng_key: Array, param_map: dict[str, Any], model: Any, guide: Any, *args, **kwargs
    ) -> Float[Array, ""]:
        """The energy with K draws of the guide; lower is better."""
        return self._evaluate(rng_key, param_map, Program(model, guide, args, kwargs))[0]

    def loss_with_mutable_state(
        self, rng_key: Array, param_map: dict[str, Any], model: Any, guide: Any, *args, **kwargs
    ) -> Any:
        """The energy, and the values of mutable sites averaged over the particles."""
        energy, values = self._evaluate(rng_key, param_map, Program(model, guide, args, kwargs))
        return {"loss": energy, "mutable_state": values or None}

    def of_draws(
        self, keys: Array, plate_key: Array, params: dict[str, Any], program: Program
    ) -> OfDraws:
        """Log-ratios and log-likelihoods of each data point, for the draws of these keys."""
        check_guide(program.guide)
        check_supports(program)
        program = program._replace(num_data=self.num_data)

        def of_draw(key: Array) -> OfDraws:
            terms = terms_of_draw(program, params, key, plate_key)
            ratios = ratios_of(terms)
            self._check_alpha(ratios)
            return OfDraws(*ratios[:4], terms.mutable)

        found = self._map(of_draw, keys)
        return found._replace(weights=found.weights[0])

    def energy(self, draws: OfDraws, params: dict[str, Any]) -> Float[Array, ""]:
        """The energy of some draws; lower is better."""
        log_ratios = without_padding(draws.log_ratios, draws.weights)
        energy = energy_of_ratios(log_ratios, draws.weights, self._alpha_at(params))
        return energy - jnp.mean(draws.without_data)

    def _evaluate(
        self, key: Array, params: dict[str, Any], program: Program
    ) -> tuple[Float[Array, ""], dict[str, Any]]:
        draws = self.of_draws(*split(key, self.num_particles), params, program)
        values = jax.tree.map(_mean_of_numbers, draws.mutable)
        if STEPS in values:
            values[STEPS] = params[STEPS] + 1
        return self.energy(draws, params), values

    def _map(self, of_draw: Callable[[Array], OfDraws], keys: Array) -> OfDraws:
        """The function applied to every key, with one chunk of particles in memory at a time."""
        if callable(self.vectorize_particles):
            return self.vectorize_particles(of_draw, keys)
        chunk = self.particle_chunk if self.vectorize_particles else 1
        if chunk is None or chunk >= len(keys):
            return jax.vmap(of_draw)(keys)
        # The backward pass computes each chunk again instead of storing it.
        return jax.lax.map(jax.checkpoint(of_draw), keys, batch_size=chunk)

    def _alpha_at(self, params: dict[str, Any]) -> Number:
        if not callable(self.alpha):
            return self.alpha
        if STEPS not in params:
            raise ValueError(
                "alpha must be a number unless the guide counts the steps; got a schedule. Wrap "
                "the guide: SVI(model, count_steps(guide), …)."
            )
        return self.alpha(params[STEPS])

    def _check_alpha(self, ratios: Ratios) -> None:
        """Raise if the energy has no lower bound; schedules and traced powers go unchecked."""
        alpha = self.alpha
        if ratios.most_alpha > 1:
            check_alpha(alpha, ratios.most_alpha, num_samples=2)
        elif _is_known(alpha) and alpha > 1:
            raise ValueError(
                "alpha must not exceed 1 if latent sites belong to single data points, beyond "
                f"which the energy has no lower bound; got alpha={float(alpha)} with the site "
                f"'{ratios.tightest}'."
            )


def _is_known(alpha: Any) -> TypeGuard[float | Array]:
    """Whether the power is a number that can be compared now: no schedule, and not traced."""
    return not (callable(alpha) or isinstance(alpha, Tracer))


def split(key: Array, num_particles: int) -> tuple[Array, Array]:
    """One key per particle, as in `Trace_ELBO`, and one for the indices of plates."""
    keys = jax.random.split(key, num_particles) if num_particles > 1 else key[None]
    return keys, jax.random.fold_in(key, PLATES)


def count_steps(guide: Any) -> Callable[..., Any]:
    """The guide, with a count of its steps in SVI's mutable state, which a schedule of α needs.

    >>> import numpyro, numpyro.distributions as dist, optax
    >>> from numpyro.infer import SVI
    >>> from numpyro.infer.autoguide import AutoNormal
    >>> from bbalpha.interfaces.numpyro import BBAlphaELBO, count_steps
    >>> def model(data):
    ...     mean = numpyro.sample("mean", dist.Normal(0, 1))
    ...     with numpyro.plate("data", len(data)):
    ...         numpyro.sample("x", dist.Normal(mean, 1), obs=data)
    >>> loss = BBAlphaELBO(alpha=optax.linear_schedule(0.0, 1.0, 100))
    >>> svi = SVI(model, count_steps(AutoNormal(model)), optax.adam(0.03), loss)
    >>> result = svi.run(jax.random.key(0), 3, jnp.ones(5), progress_bar=False)
    >>> print(result.state.mutable_state)
    {'_bbalpha_steps': Array(3, dtype=int32)}
    """
    return partial(_counted, guide)


def _counted(guide: Any, *args: Any, **kwargs: Any) -> Any:
    mutable(STEPS, jnp.zeros((), jnp.int32))
    return guide(*args, **kwargs)


def _mean_of_numbers(values: Array) -> Array:
    """The mean over particles; for values other than floats, the value of the first particle."""
    if jnp.issubdtype(values.dtype, jnp.inexact):
        return jnp.mean(values, axis=0)
    return values[0]
