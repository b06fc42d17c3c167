"""`Posterior`, which a fit returns: draws, predictions, diagnostics, saving and loading."""

import dataclasses
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from bbalpha.data import check_data
from bbalpha.diagnostics import Diagnosis, diagnose
from bbalpha.distributions import Density, Distribution
from bbalpha.engine import threefry
from bbalpha.engine.arrays import AnyArray, library_of, on_device, on_host
from bbalpha.engine.batches import padded_length
from bbalpha.engine.checks import (
    as_keys,
    check_counts,
    check_log_likelihood,
    check_one_per_datum,
    without_jit,
)
from bbalpha.engine.draws import chunk_of_draws, map_draws
from bbalpha.engine.layout import Layout
from bbalpha.engine.options import compiler_options, inside_program
from bbalpha.importance import Draws
from bbalpha.priors import Prior
from bbalpha.reweighting import Reweighted, reweighted
from bbalpha.summaries import Summary, mean_of, summary_of, variance_of

ROWS_TIMES_DRAWS = 2**22  # most rows times draws of a chunk of predictions in memory


@dataclasses.dataclass(frozen=True)
class FitInfo:
    """The record of a run, for people to read.

    `energies` holds the mean minibatch energy of each epoch; `held_out` holds pairs of an epoch and
    its held-out log-likelihood. `stopped` says why the run ended: "converged", "finished" (the
    budget was used up, or the energy hardly depends on q), "diverged" (some deviations grow or
    shrink without end), "early" (early stopping), "callback", "interrupted" or "non-finite". During
    a callback it is "running". `converged` says whether the result had stopped changing; it is
    False if early stopping returned a state from before that. `fall` is how much the energy still
    fell in the middle of a run of an optimizer such as Adam, in nats per data point: 0 if it had
    settled, infinite if the run was too short to judge.

    For message passing, `energies` has one energy per sweep, `num_steps` counts sweeps, and
    `skipped` is the number of sites that each sweep had to leave unchanged. `stopped` may also be
    "double loop" (the double loop converged after sweeps had not) or "traced" (the fit ran inside
    another compiled program, so nothing else is known).
    """

    energies: tuple[float, ...] = ()
    held_out: tuple[tuple[int, float], ...] = ()
    num_steps: int = 0
    seconds: float = 0.0
    stopped: str = "finished"
    converged: bool = False
    skipped: tuple[int, ...] = ()
    fall: float = 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class _Aside:
    """Compares equal to any other instance, so that all posteriors share one tree structure."""

    info: FitInfo

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Aside)

    def __hash__(self) -> int:
        return 0


jax.tree_util.register_pytree_node(
    FitInfo, lambda info: ((), _Aside(info)), lambda aside, _: aside.info
)


class Posterior(eqx.Module):
    """The approximate posterior q(θ) over a tree of parameters.

    `q` and `prior` are distributions over the flat vector of free numbers, `energy` is the BB-α
    energy on the full data (lower is better), and `hyperparams` holds the learned hyper-parameters.
    Everything else is in the units of the model, where transforms put constraints on parameters.

    After power EP and other methods with one site per datum, `leave_one_out` holds the log
    predictive density of each datum under q without its site.
    """

    q: Distribution
    prior: Density
    hyperparams: PyTree
    alpha: Float[Array, ""]
    num_data: Float[Array, ""]
    energy: Float[Array, ""]
    layout: Layout = eqx.field(static=True)
    info: FitInfo = FitInfo()
    leave_one_out: Float[Array, " data"] | None = None

    def __repr__(self) -> str:
        q, prior = type(self.q).__name__, type(self.prior).__name__
        num_data, info = _shown(self.num_data), self.info
        leaves = f"{len(self.layout.paths)} array{'' if len(self.layout.paths) == 1 else 's'}"
        return (
            f"Posterior: {q} over {self.layout.size:,} numbers in {leaves}, prior {prior}\n"
            f"    α = {_shown(self.alpha)}, N = {num_data}, energy = {_shown(self.energy)}\n"
            f"    {info.num_steps:,} steps, {info.seconds:.1f} s, stopped: {info.stopped}, "
            f"converged: {'yes' if info.converged else 'no'}"
        )

    @property
    def mean(self) -> PyTree:
        """The mean of every parameter, in the tree of the model.

        Means and variances are exact for parameters without a transform. With a transform, they are
        computed by quadrature, or from 16,384 fixed draws if the transform mixes entries, as for
        ordered vectors and simplexes.
        """
        return mean_of(self.q, self.layout)

    @property
    def variance(self) -> PyTree:
        """The variance of every parameter, in the tree of the model."""
        return variance_of(self.q, self.layout)

    def summary(self) -> Summary:
        """Mean, deviation and 5 % and 95 % quantiles of every parameter; `print` shows a table."""
        return summary_of(self.q, self.layout)

    def sample(self, num_samples: int, *, key: Key[Array, ""]) -> PyTree:
        """Draws of the parameters: a tree whose leaves have a leading axis of draws."""
        check_counts(num_samples=num_samples)
        return _sample(self.q, self.layout, as_keys(key, 0, "key"), num_samples)

    def log_prob(self, params: PyTree) -> Float[Array, ""]:
        """The log-density log q(θ) of one tree of parameters; −∞ if it breaks a constraint."""
        vector = self.layout.flatten(params)
        if not self.layout.is_constrained:
            return self.q.log_prob(vector)
        log_density = self.q.log_prob(vector) - sum(self.layout.log_det_jacobians(vector))
        return jnp.where(jnp.all(jnp.isfinite(vector)), log_density, -jnp.inf)

    def predict(
        self,
        model: Callable[[PyTree, PyTree], PyTree],
        inputs: PyTree,
        *,
        key: Key[Array, ""],
        num_samples: int = 1000,
        summary: Callable[[PyTree], PyTree] | None = None,
    ) -> PyTree:
        """The outputs of `model` for every draw of the parameters and every row of `inputs`.

        All rows see the same draws. Without `summary`, the result has axes (draws, rows, …). A
        `summary` maps the outputs (draws, rows, …) of a chunk of rows to a tree of arrays whose
        first axis is the rows; memory then does not grow with rows times draws.

        Args:
            model: a function of one tree of parameters and a pytree of rows.
            inputs: a pytree of arrays whose first axis is the rows.
            key: randomness of the draws.
            num_samples: number of draws; at α = 1, 50 are too few for log-densities.
            summary: for example `lambda outputs: outputs.mean(axis=0)`.
        """
        check_counts(num_samples=num_samples)
        key = as_keys(key, 0, "key")
        num_rows = check_data(inputs, "inputs")
        is_short = num_rows * num_samples <= ROWS_TIMES_DRAWS  # more repay the slower compiler
        program = _prediction(is_short and not inside_program(self, inputs, key))
        predict_rows = partial(
            program, self.q, self.layout, model, summary, key=key, num_samples=num_samples
        )
        rows_axis = 1 if summary is None else 0
        return map_rows(predict_rows, inputs, ROWS_TIMES_DRAWS // num_samples, rows_axis)

    def log_density(
        self,
        log_likelihood: Callable[..., Float[Array, " rows"]],
        data: PyTree,
        *,
        key: Key[Array, ""],
        num_samples: int = 1000,
    ) -> Float[Array, " rows"]:
        """The predictive log-density of each datum, log (1/K) Σₖ p(xₙ|θₖ); higher is better.

        Args:
            log_likelihood: the function that was given to `fit`.
            data: new data in the form that was given to `fit`.
            key: randomness of the draws.
            num_samples: K; at α = 1, 50 are too few.
        """
        log_likelihood = without_jit(log_likelihood)
        extra = () if self.hyperparams is None else (self.hyperparams,)
        check_data(data)
        params = jax.eval_shape(self.layout.unflatten, self.q.mean)
        check_log_likelihood(
            lambda params, rows: log_likelihood(params, rows, *extra), params, data
        )
        model = eqx.Partial(_with_hyperparams, log_likelihood, extra)
        return self.predict(model, data, key=key, num_samples=num_samples, summary=log_mean_exp)

    def diagnose(
        self,
        log_likelihood: Callable[..., Float[Array, " rows"]],
        data: PyTree,
        *,
        key: Key[Array, ""],
        num_samples: int = 4000,
        fit_num_samples: int = 100,
        sample_weight: Any = None,
    ) -> Diagnosis:
        """How far q is from the exact posterior, and how noisy the fit was; `print` the result.

        This takes about as long as evaluating the log-likelihood eight times at every draw and row.

        Args:
            log_likelihood: the function that was given to `fit`.
            data: all of the data that were given to `fit`.
            key: randomness of the draws.
            num_samples: number of draws, at least 100 and 4 × `fit_num_samples`.
            fit_num_samples: K, the `num_samples` of the fit.
            sample_weight: as given to `fit`.

        Raises:
            ValueError: if an argument breaks its rule, or the log-likelihood is NaN at a draw.
            TypeError: if an argument is of the wrong kind.

        >>> def log_likelihood(mean, batch):
        ...     return jax.scipy.stats.norm.logpdf(batch, mean)
        >>> data = jnp.array([0.5, 1.5, 2.5])  # with prior N(0, 1) the posterior is N(1.125, ¼)
        >>> q = bb.DiagonalGaussian(jnp.array([1.125]), jnp.log(jnp.array([0.25])))
        >>> prior = bb.DiagonalGaussian(jnp.zeros(1), jnp.zeros(1))
        >>> layout, alpha, num_data = bb.Layout.of(jnp.zeros(())), jnp.array(0.0), jnp.array(3.0)
        >>> posterior = bb.Posterior(q, prior, None, alpha, num_data, jnp.array(jnp.nan), layout)
        >>> posterior.diagnose(log_likelihood, data, key=jax.random.key(0)).pareto_k
        -inf
        """
        draws = Draws.of(self, log_likelihood, data, key, num_samples, sample_weight)
        return diagnose(draws, fit_num_samples)

    def reweighted(
        self,
        log_likelihood: Callable[..., Float[Array, " rows"]],
        data: PyTree,
        *,
        key: Key[Array, ""],
        num_samples: int = 4000,
        sample_weight: Any = None,
    ) -> Reweighted:
        """The exact posterior, as draws of q with Pareto-smoothed importance weights.

        At α > 0, q is wider than at α = 0, which makes it a better proposal. Learned
        hyper-parameters and priors are held fixed. Warnings name the parameters whose tails q
        misses, and say if there are too few draws.

        Args:
            log_likelihood: the function that was given to `fit`.
            data: all of the data that were given to `fit`.
            key: randomness of the draws; `sample` with this key returns the same draws.
            num_samples: number of draws, at least 100.
            sample_weight: as given to `fit`.

        Raises:
            ValueError: if k̂ exceeds 0.7, so that weights cannot be trusted, or as for `diagnose`.
            TypeError: if an argument is of the wrong kind.

        >>> def log_likelihood(mean, batch):
        ...     return jax.scipy.stats.norm.logpdf(batch, mean)
        >>> data = jnp.array([0.5, 1.5, 2.5])  # with prior N(0, 1) the posterior is N(1.125, ¼)
        >>> q = bb.DiagonalGaussian(jnp.ones(1), jnp.zeros(1))  # N(1, 1), twice as wide
        >>> prior = bb.DiagonalGaussian(jnp.zeros(1), jnp.zeros(1))
        >>> layout, alpha, num_data = bb.Layout.of(jnp.zeros(())), jnp.array(0.5), jnp.array(3.0)
        >>> posterior = bb.Posterior(q, prior, None, alpha, num_data, jnp.array(jnp.nan), layout)
        >>> exact = posterior.reweighted(log_likelihood, data, key=jax.random.key(0))
        >>> print(f"{exact.mean:.1f} ± {exact.variance**0.5:.1f}")
        1.1 ± 0.5
        """
        draws = Draws.of(self, log_likelihood, data, key, num_samples, sample_weight)
        return reweighted(draws, self.sample(num_samples, key=key))

    def save(self, path: str | Path) -> None:
        """Write the posterior to a safetensors file, which holds arrays and JSON but no code."""
        from bbalpha.files.posterior_file import write_posterior

        write_posterior(path, self)

    @classmethod
    def load(
        cls,
        path: str | Path,
        params: PyTree,
        hyperparams: PyTree = None,
        *,
        q: Distribution | None = None,
        prior: Prior = None,
        transforms: PyTree = None,
    ) -> "Posterior":
        """Read a posterior that `save` wrote.

        Args:
            path: the file.
            params: a tree with the names and shapes that were fitted, such as the start of `fit`.
            hyperparams: a tree like the hyper-parameters, if these were learned.
            q: an example of q, needed only if you wrote its class yourself.
            prior: an example of the prior, needed only if you wrote its class yourself; if the
                prior was given by functions, pass them again, because a file holds no code.
            transforms: as given to `fit`, needed only if you wrote a transform yourself.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if the file is not a bbalpha model, is damaged, or holds another tree.
        """
        from bbalpha.files.posterior_file import read_posterior

        return read_posterior(path, params, hyperparams, q, prior, transforms)


def map_rows(
    function: Callable[[PyTree], PyTree], rows: PyTree, chunk: int, rows_axis: int
) -> PyTree:
    """`function` of all rows, one chunk at a time; chunks are padded so that shapes repeat."""
    num_rows = len(jax.tree.leaves(rows)[0])
    rows = jax.tree.map(on_host, rows)
    chunk = max(1, min(chunk, padded_length(num_rows)))
    results = []
    for start in range(0, num_rows, chunk):
        taken = np.minimum(np.arange(start, start + chunk), num_rows - 1)
        results.append(function(jax.tree.map(lambda leaf, taken=taken: leaf[taken], rows)))
    for leaf in jax.tree.leaves(results[0]):
        if np.shape(leaf)[rows_axis : rows_axis + 1] != (chunk,):
            raise ValueError(
                f"{('summary', 'model')[rows_axis]} must return arrays whose first axis is the "
                f"rows; got shape {np.shape(leaf)[rows_axis:]} for {chunk} rows."
            )

    def joined(*pieces: AnyArray) -> Array:
        numpy = library_of(pieces)
        whole = numpy.concatenate(pieces, rows_axis) if pieces[1:] else pieces[0]
        return on_device(whole[(slice(None),) * rows_axis + (slice(num_rows),)])

    return jax.tree.map(joined, *jax.tree.map(on_host, results))


def _shown(number: Any) -> str:
    """A number as text; for several, or for one that is traced, its type and shape."""
    if inside_program(number) or number.shape or isinstance(number, jax.ShapeDtypeStruct):
        return f"{number.dtype}{list(number.shape)}"
    return f"{float(number):.6g}"


def _with_hyperparams(
    log_likelihood: Callable[..., Array],
    hyperparams: tuple[PyTree, ...],
    params: PyTree,
    data: PyTree,
) -> Array:
    return log_likelihood(params, data, *hyperparams)


def log_mean_exp(log_densities: Float[Array, "draws ..."]) -> Float[Array, " rows"]:
    """The logarithm of the average density, of shape (rows,), given (draws, rows)."""
    check_one_per_datum(log_densities.shape[1:])
    # Weights 1/K; subtracting log K afterwards would cost 5e-7 in float32 at K = 1,000.
    return jax.nn.logsumexp(log_densities, axis=0, b=1 / len(log_densities))


@eqx.filter_jit
def _sample(q: Distribution, layout: Layout, key: Key[Array, ""], num_samples: int) -> PyTree:
    chunk = chunk_of_draws(layout.size, 0, num_samples)
    keys = threefry.consecutive(key, num_samples)
    return map_draws(lambda params, _: layout.unflatten(params), q, keys, chunk)


@cache
def _prediction(is_quick: bool) -> Callable:
    """`_predict_rows` as a program, compiled either quickly or for speed."""
    jit: Callable = eqx.filter_jit  # its annotations lack the settings of `jax.jit`
    return jit(_predict_rows, compiler_options=compiler_options(is_rare=True) if is_quick else None)


def _predict_rows(
    q: Distribution,
    layout: Layout,
    model: Callable[[PyTree, PyTree], PyTree],
    summary: Callable[[PyTree], PyTree] | None,
    rows: PyTree,
    key: Key[Array, ""],
    num_samples: int,
) -> PyTree:
    chunk = chunk_of_draws(layout.size, len(jax.tree.leaves(rows)[0]), num_samples)
    keys = threefry.consecutive(key, num_samples)
    outputs = map_draws(lambda params, _: model(layout.unflatten(params), rows), q, keys, chunk)
    return outputs if summary is None else summary(outputs)
