"""The state of a fit: everything that a step needs, and how one step changes it."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, UInt32

from bbalpha.distributions import Density, DiagonalGaussian, Distribution, under_prior
from bbalpha.energy import LogLikelihood, Number, alpha_energy
from bbalpha.engine import streams, threefry
from bbalpha.engine.checks import check_log_likelihood
from bbalpha.engine.draws import Noise, chunk_of_draws, largest_array
from bbalpha.engine.layout import Layout
from bbalpha.engine.materialize import in_memory
from bbalpha.engine.noise import Draws, paired_noise, shifted_noise
from bbalpha.engine.shards import padded, summed
from bbalpha.natural import NaturalState
from bbalpha.posterior import Posterior

KEPT_NOISE = 2**25  # most numbers of noise that a replica keeps from step to step: 128 MiB

Schedule = Callable[[Int[Array, ""]], Number]


@dataclasses.dataclass(frozen=True)
class Method:
    """The parts of a fit that are fixed when it is compiled."""

    log_likelihood: LogLikelihood
    layout: Layout
    num_samples: int
    sample_chunk: int | None
    resample_every: int
    alpha_schedule: Schedule | None
    draws: Draws = "independent"
    mesh: Mesh | None = None  # the devices that share the rows of a batch, if there are several

    def alpha_at(self, alpha: Float[Array, ""], step: Int[Array, ""]) -> Float[Array, ""]:
        """The power at a step: constant, or given by the schedule."""
        if self.alpha_schedule is None:
            return alpha
        return jnp.asarray(self.alpha_schedule(step), alpha.dtype)

    def chunk(self, params: Any, *rest: PyTree) -> int:
        """The number of draws to hold in memory at once.

        Args:
            params: the flat vector of one draw, or its shape.
            rest: the other arguments of `log_likelihood`, or their shapes.
        """
        if self.sample_chunk is not None:
            return self.sample_chunk

        def of_draw(params: Float[Array, " params"], *rest: PyTree) -> Array:
            return self.log_likelihood(self.layout.unflatten(params), *rest)

        size, num_rows = self.layout.size, len(jax.tree.leaves(rest[0])[0])
        if chunk_of_draws(size, num_rows, self.num_samples) == self.num_samples:
            return self.num_samples
        width = -(-largest_array(of_draw, params, *rest) // num_rows)
        return chunk_of_draws(size, num_rows, self.num_samples, width)


class Variables(NamedTuple):
    """What the optimizer changes: q, log-factors on the prior's variances, hyper-parameters."""

    q: Any
    log_prior_scale: tuple[Float[Array, "..."], ...] | None  # one per leaf, broadcast to it
    hyperparams: PyTree


class StepInfo(NamedTuple):
    """The report of a step: the minibatch energy before it, and whether all values were finite."""

    energy: Float[Array, ""]
    finite: Bool[Array, ""]


class FitState(eqx.Module):
    """Exactly what the next step needs, and therefore exactly what a checkpoint must store."""

    variables: Variables
    optimizer_state: PyTree
    optimizer: optax.GradientTransformation
    step: Int[Array, "..."]
    key: Key[Array, "..."]
    prior: Density
    alpha: Float[Array, "..."]
    num_data: Float[Array, "..."]
    method: Method = eqx.field(static=True)
    sobol_points: UInt32[Array, "pairs noise"] | None = None

    def posterior(self) -> Posterior:
        """The posterior so far; its energy on the full data is unknown and therefore NaN."""
        return _posterior(self)

    @property
    def last_alpha(self) -> Float[Array, "..."]:
        """The power of the last step; before the first step, the power that it will have."""
        return self.method.alpha_at(self.alpha, jnp.maximum(self.step - 1, 0))

    @property
    def is_natural(self) -> bool:
        """Whether the optimizer takes natural-gradient steps."""
        return isinstance(self.optimizer_state, NaturalState)

    def at_full_alpha(self) -> "FitState":
        """The same state with the full α for the next step, even if α was still rising."""
        if not self.is_natural:
            return self
        return dataclasses.replace(self, optimizer_state=self.optimizer_state.at_full_alpha())

    @property
    def dtype(self) -> Any:
        """The type of parameters and energies."""
        return self.alpha.dtype

    @property
    def mesh(self) -> Mesh | None:
        """The devices that share the rows of a batch, if there are several."""
        return self.method.mesh

    @property
    def resample_every(self) -> int:
        """M, how many steps share the same noise."""
        return self.method.resample_every

    def noise_keys(self, step: Int[Array, ""] | None = None) -> Key[Array, " draws"]:
        """One key per draw of a step (by default the next); shared by `resample_every` steps."""
        period = (self.step if step is None else step) // self.resample_every
        key = threefry.fold_in(threefry.fold_in(self.key, streams.NOISE), period)
        keys = threefry.consecutive(key, self.method.num_samples)
        # If fused into the drawing, the hash would cost as much as the drawing itself.
        words = in_memory(jax.random.key_data(keys), jax.random.key_data(self.key))
        return jax.random.wrap_key_data(words, impl=str(jax.random.key_impl(self.key)))

    def noise_at(self, step: Int[Array, ""]) -> Noise:
        """The noise of a step.

        Independent noise stays a set of keys if no other step shares it, or if it is large.
        """
        keys = self.noise_keys(step)
        if self.resample_every == 1 and self.method.draws == "independent" and not self.is_natural:
            return keys
        q, _ = _distributions(self, self.variables)
        draw = jax.vmap(q.noise)
        if self.sobol_points is not None:
            return shifted_noise(self.sobol_points, keys[0], len(keys)).astype(self.dtype)
        if self.method.draws != "independent":
            return paired_noise(draw, keys, matched=self.method.draws == "matched")
        is_small = jax.eval_shape(draw, keys).size <= KEPT_NOISE
        return draw(keys) if is_small or self.is_natural else keys

    def energy(
        self, batch: PyTree, weights: Float[Array, " batch"] | None = None
    ) -> Float[Array, ""]:
        """The energy on a minibatch, with the draws of the next step; lower is better.

        Args:
            batch: any pytree of arrays whose first axis is the data points.
            weights: how many data points each row stands for; N/|S| each by default.
        """
        shared = (self, self.variables, self.noise_at(self.step), self.last_alpha)
        return summed(self.mesh, _energy)(_with_weights(self, batch, weights), *shared)

    def advance(
        self, batch: PyTree, weights: Float[Array, " batch"] | None, noise: Noise
    ) -> tuple["FitState", StepInfo]:
        """`step`, with noise that the caller has drawn, or with keys to draw it from."""
        variables: Any = self.variables
        alpha = self.method.alpha_at(self.alpha, self.step)
        if self.is_natural and self.method.alpha_schedule is None:
            alpha = alpha * self.optimizer_state.share_of_alpha

        mesh, rows = self.mesh, _with_weights(self, batch, weights)

        def energy_of(variables: Variables, noise: Noise = noise) -> Float[Array, ""]:
            return summed(mesh, _energy)(rows, self, variables, noise, alpha)

        gradient: Any
        extra = {}
        if self.is_natural:
            found = summed(mesh, _natural_gradient)(rows, self, variables, noise, alpha)
            energy, gradient, coordinates = found
            _, prior = _distributions(self, variables)
            extra = {"prior": prior, "coordinates": coordinates}
        else:
            of_rows = jax.value_and_grad(_energy, argnums=2)
            energy, gradient = summed(mesh, of_rows)(rows, self, variables, noise, alpha)
        if isinstance(self.optimizer, optax.GradientTransformationExtraArgs):
            extra = extra | {"value": energy, "grad": gradient, "value_fn": energy_of}
        updates, optimizer_state = self.optimizer.update(
            gradient, self.optimizer_state, variables, **extra
        )
        moved = optax.apply_updates(variables, updates)
        # Squares, because a gradient whose square overflows would stop Adam forever.
        finite = jnp.isfinite(energy + _sum_of_squares(gradient, moved))
        variables, optimizer_state, count = jax.tree.map(
            lambda new, old: jnp.where(finite, new, old),
            (moved, optimizer_state, self.step + 1),
            (variables, self.optimizer_state, self.step),
        )
        state = dataclasses.replace(
            self, variables=variables, optimizer_state=optimizer_state, step=count
        )
        return state, StepInfo(energy, finite)


def check_likelihood(state: FitState, data: PyTree, batch_size: int) -> None:
    """Raise unless the user's log-likelihood returns one number per row and accepts the targets."""
    method, hyperparams = state.method, state.variables.hyperparams
    extra = () if hyperparams is None else (hyperparams,)
    vector = jax.ShapeDtypeStruct((method.layout.size,), state.dtype)
    params = jax.eval_shape(method.layout.unflatten, vector)

    def log_likelihood(params: PyTree, rows: PyTree) -> Any:
        return method.log_likelihood(params, rows, *extra)

    check_log_likelihood(log_likelihood, params, data, batch_size)


@jax.jit
def _posterior(state: FitState) -> Posterior:
    q, prior = _distributions(state, state.variables)
    return Posterior(
        q=q,
        prior=prior,
        hyperparams=state.variables.hyperparams,
        alpha=state.last_alpha,
        num_data=state.num_data,
        energy=jnp.full_like(state.alpha, jnp.nan),
        layout=state.method.layout,
    )


def _with_weights(
    state: FitState, batch: PyTree, weights: Float[Array, " batch"] | None
) -> tuple[PyTree, Float[Array, " padded"] | None]:
    """The batch with its weights; padded, if there are several devices to spread it over."""
    if state.mesh is None:
        return batch, weights
    if weights is None:
        num_rows = len(jax.tree.leaves(batch)[0])
        weights = jnp.full(num_rows, state.num_data / num_rows, state.dtype)
    return padded(state.mesh, batch, weights)


def _energy(
    rows: tuple[PyTree, Float[Array, " batch"] | None],
    state: FitState,
    variables: Variables,
    noise: Noise,
    alpha: Float[Array, ""],
) -> Float[Array, ""]:
    """The energy of `variables`, a sum over weighted rows, with the settings of `state`."""
    q, prior = _distributions(state, variables)
    batch, weights = rows
    extra = () if variables.hyperparams is None else (variables.hyperparams,)
    params = jax.ShapeDtypeStruct((state.method.layout.size,), state.dtype)
    return alpha_energy(
        state.method.log_likelihood,
        q,
        prior,
        batch,
        noise,
        alpha=alpha,
        num_data=state.num_data,
        layout=state.method.layout,
        hyperparams=variables.hyperparams,
        weights=weights,
        sample_chunk=state.method.chunk(params, batch, *extra),
    ).astype(state.dtype)


def _natural_gradient(
    rows: tuple[PyTree, Float[Array, " batch"] | None],
    state: FitState,
    variables: Variables,
    noise: Noise,
    alpha: Float[Array, ""],
) -> tuple[Float[Array, ""], Variables, PyTree]:
    """The energy, its gradient (natural for q), and the coordinates of the natural gradient.

    The gradient of E(q) with respect to q is the sum of a part P along the path of the draws and a
    part D through the density in f. Written with scores, the whole is −(1/α − 1/N) Σₙ Eₙ[∂ log q],
    where Eₙ is the tilted expectation, and D is (1/N) Σₙ Eₙ[∂ log q]. So D is −α/(N − α) times the
    whole, and the whole is (1 − α/N) P. P alone is less noisy: at α = 0 it vanishes draw by draw
    where q is the posterior (Roeder et al., 2017). P follows from the derivative of the energy with
    respect to the noise, at fixed q, which q maps to its natural gradient. This map is linear, so
    everything here is a sum over the rows.
    """
    _, prior = _distributions(state, variables)

    def energy_at(noise: Noise, *rest: PyTree) -> Float[Array, ""]:
        return _energy(rows, state, Variables(variables.q, *rest), noise, alpha)

    energy, (path, *rest) = jax.value_and_grad(energy_at, (0, 1, 2))(noise, *variables[1:])
    path = (1 - alpha / state.num_data) * path
    direction, coordinates = variables.q.natural_gradient(noise, path, prior)
    return energy, Variables(direction, *rest), coordinates


def _distributions(state: FitState, variables: Variables) -> tuple[Distribution, Density]:
    """The approximation q and the prior p₀ that the variables represent."""
    prior = state.prior
    if variables.log_prior_scale is not None:
        assert isinstance(prior, DiagonalGaussian)
        log_scale = state.method.layout.spread(variables.log_prior_scale)
        prior = DiagonalGaussian(prior.mean, prior.log_variance + log_scale)
    return under_prior(variables.q, prior), prior


def _sum_of_squares(*trees: PyTree) -> Float[Array, ""]:
    sums = jax.tree.map(lambda *leaves: jnp.sum(sum(jnp.square(leaf) for leaf in leaves)), *trees)
    return sum(jax.tree.leaves(sums), start=jnp.zeros(()))
