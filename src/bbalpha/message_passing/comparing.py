"""`compare`: several methods on one model and one data set, by accuracy, evidence and time."""

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from bbalpha.convergence import ConvergenceWarning
from bbalpha.distributions import FullGaussian
from bbalpha.engine.checks import as_keys
from bbalpha.engine.clock import Compiling
from bbalpha.engine.progress import progress_bar
from bbalpha.fitting import fit
from bbalpha.message_passing.arguments import Problem, ProjectedLikelihood, prepare
from bbalpha.message_passing.comparison import Comparison, ComparisonRow
from bbalpha.message_passing.double_loop import double_loop_ep
from bbalpha.message_passing.programs import in_double_precision
from bbalpha.message_passing.references import log_likelihood_of, reference_row
from bbalpha.message_passing.scores import scores_under
from bbalpha.message_passing.server import snep
from bbalpha.message_passing.stationary import fixed_point
from bbalpha.message_passing.sweeps import power_ep
from bbalpha.message_passing.tied import averaged_ep, stochastic_ep
from bbalpha.message_passing.variational import vmp
from bbalpha.posterior import Posterior

METHODS = ("power_ep", "vmp", "averaged_ep", "fit")
ALPHAS = (0.5, 1.0)


def compare(
    log_likelihood: ProjectedLikelihood,
    inputs: Any,
    targets: PyTree,
    *,
    key: Key[Array, ""],
    methods: Iterable[str] | Mapping[str, Callable[..., Posterior]] = METHODS,
    alphas: Iterable[Any] | float = ALPHAS,
    prior: Any = 1.0,
    hyperparams: PyTree = None,
    test: Any = None,
    reference: Any = "auto",
    progress: bool = True,
) -> Comparison:
    """Compare several approximations of one posterior with a reference; `print` the result.

    Every method sees the same model of projections, f = xₙᵀθ, and works in 64 bits. A method that
    fails gets a row that says why. Its seconds do not include compiling, which is measured
    separately.

    Args:
        log_likelihood: as for `power_ep`.
        inputs: as for `power_ep`.
        targets: as for `power_ep`.
        key: randomness of draws, for the reference and for methods that need draws.
        methods: names of functions: "power_ep", "double_loop_ep", "vmp", "averaged_ep",
            "stochastic_ep", "snep", "fit" (BB-α with a full Gaussian) and "fixed_point" (the same
            without Monte Carlo error, but often slower). Or a dictionary from names of your choice
            to functions that return a posterior; each is called as `function(log_likelihood,
            inputs, targets, prior=prior)`, with `hyperparams` if given.
        alphas: powers at which each named method is run; `vmp`, the limit at 0, runs once.
        prior: as for `power_ep`.
        hyperparams: as for `power_ep`.
        test: inputs and targets of held-out rows.
        reference: "exact" (for `bb.Gaussian`); "nuts", draws by NumPyro; "importance", draws of
            EP's posterior with importance weights; a posterior; draws, either as an array of shape
            (draws, parameters) or as `bb.Reweighted`; or None. "auto" takes the first of "exact",
            "nuts" and "importance" that is available.
        progress: show a progress bar on a terminal.

    Raises:
        ValueError: if an argument breaks its rule, or if every method fails.
        TypeError: if an argument is of the wrong kind.
        ImportError: if `reference` is "nuts" and NumPyro is not installed.

    >>> inputs = jnp.array([[1.0, 0.5], [1.0, -1.0], [1.0, 2.0], [1.0, -0.5]])
    >>> targets = jnp.array([1.0, 0.0, 2.0, 0.5])
    >>> methods = ("power_ep", "fixed_point")
    >>> found = bb.compare(bb.Gaussian(), inputs, targets, methods=methods, key=jax.random.key(0))
    >>> for row in found.rows:
    ...     print(f"{row.label}: {found.deviation_ratios(row).max():.2f}")
    power_ep, α = 0.5: 1.00
    power_ep, α = 1: 1.00
    fixed_point, α = 0.5: 1.11
    fixed_point, α = 1: 1.26
    """
    for_methods, for_reference = jax.random.split(as_keys(key, 0, "key"))
    calls = _calls(methods, alphas, for_methods)
    with in_double_precision():
        model = (log_likelihood, prior, hyperparams)
        problem = _problem(inputs, targets, *model)
        held_out = None if test is None else _test_problem(test, problem, *model)
        rows = []
        with progress_bar(progress, "methods", len(calls) + 1) as update:
            for done, call in enumerate(calls):
                update(done, call.method)
                rows.append(_row(call, problem, held_out))
            _check_some_worked(rows)
            update(len(calls), "reference")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # of EP, which gets its own row
                standard = reference_row(reference, problem, held_out, for_reference)
    return Comparison(tuple(rows), standard)


class Call(NamedTuple):
    """A method to run: its name, its power (NaN if it has none), and the function."""

    method: str
    alpha: float
    function: Callable[[Problem], Posterior]


def _fit(
    log_likelihood: Any,
    inputs: Any,
    targets: Any,
    *,
    prior: Any,
    alpha: float,
    key: Any,
    hyperparams: Any = None,
) -> Posterior:
    """BB-α by gradients, with a full Gaussian; Ctrl-C ends the whole comparison."""
    problem = _problem(inputs, targets, log_likelihood, prior, hyperparams)
    posterior = fit(
        log_likelihood_of(problem),
        np.zeros(problem.inputs.shape[1]),
        (problem.inputs, problem.targets),
        prior=problem.prior.distribution,
        alpha=alpha,
        family=FullGaussian,
        key=key,
        progress=False,
    )
    if posterior.info.stopped == "interrupted":
        raise KeyboardInterrupt
    return posterior


FUNCTIONS: dict[str, Callable[..., Posterior]] = {
    "power_ep": power_ep,
    "double_loop_ep": double_loop_ep,
    "vmp": vmp,
    "averaged_ep": averaged_ep,
    "stochastic_ep": stochastic_ep,
    "fixed_point": fixed_point,
    "snep": snep,
    "fit": _fit,
}
RANDOM = ("stochastic_ep", "snep", "fit")


def _calls(methods: Any, alphas: Any, key: Key[Array, ""]) -> list[Call]:
    """The requested methods, each at the powers that apply to it.

    Raises:
        ValueError: if there is no such method, or a power is not a finite number.
    """
    powers = np.atleast_1d(np.asarray(alphas if np.ndim(alphas) == 0 else list(alphas), object))
    for power in powers:
        if not isinstance(power, int | float | np.number) or not math.isfinite(power):
            raise ValueError(f"alphas must be finite numbers; got {power!r}.")
    if isinstance(methods, Mapping):
        return [Call(name, math.nan, _bound(function)) for name, function in methods.items()]
    names = (methods,) if isinstance(methods, str) else tuple(methods)
    for name in names:
        if name not in FUNCTIONS:
            raise ValueError(f"methods must be among {', '.join(FUNCTIONS)}; got {name!r}.")
    if not names or not powers.size:
        raise ValueError("methods and alphas must not be empty.")
    calls = []
    for name in dict.fromkeys(names):
        extra = {"key": key} if name in RANDOM else {}
        if name == "vmp":
            calls.append(Call(name, 0.0, _bound(vmp)))
            continue
        for power in map(float, powers):
            calls.append(Call(name, power, _bound(FUNCTIONS[name], alpha=power, **extra)))
    return calls


def _bound(function: Callable[..., Posterior], **extra: Any) -> Callable[[Problem], Posterior]:
    """The function as one of a problem, whose arguments are in 64 bits."""

    def call(problem: Problem) -> Posterior:
        given = {} if problem.hyperparams is None else {"hyperparams": problem.hyperparams}
        rows = (problem.log_likelihood, problem.inputs, problem.targets)
        return function(*rows, prior=problem.prior_argument, **given, **extra)

    return call


def _problem(
    inputs: Any, targets: Any, log_likelihood: Any, prior: Any, hyperparams: Any
) -> Problem:
    return prepare(log_likelihood, inputs, targets, prior, hyperparams, FullGaussian)


def _test_problem(test: Any, problem: Problem, *model: Any) -> Problem:
    """The held-out rows as a separate problem."""
    if not isinstance(test, tuple | list) or len(test) != 2:
        raise TypeError(f"test must be a pair of inputs and targets; got a {type(test).__name__}.")
    columns, expected = np.shape(test[0])[1:], problem.inputs.shape[1:]
    if columns != expected:
        raise ValueError(
            f"test must have the {expected[0]} columns of inputs; got shape {np.shape(test[0])}."
        )
    return _problem(*test, *model)


def _row(call: Call, problem: Problem, held_out: Problem | None) -> ComparisonRow:
    """Run a method; return a row with its result or with the reason of its failure."""
    compiling, began = Compiling(), time.perf_counter()
    try:
        posterior, remark = _quietly(call.function, problem)
    except (ValueError, ArithmeticError) as error:
        return _failed(call, problem, str(error))
    seconds, made = time.perf_counter() - began, compiling.seconds
    q = posterior.q
    score = math.nan if held_out is None else float(scores_under(q, held_out).mean())
    return ComparisonRow(
        call.method,
        float(posterior.alpha),
        np.asarray(q.mean, np.float64),
        np.sqrt(np.asarray(q.variance, np.float64)),
        -float(posterior.energy),
        score,
        max(0.0, seconds - made),
        made,
        posterior.info.converged,
        remark,
    )


def _quietly(function: Callable[[Problem], Posterior], problem: Problem) -> tuple[Posterior, str]:
    """The posterior once it is ready, and the text of a warning about convergence, if any."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = jax.block_until_ready(function(problem))
    remarks = []
    for warning in caught:
        if issubclass(warning.category, ConvergenceWarning):
            remarks.append(str(warning.message))
        else:
            warnings.warn(warning.message, warning.category, stacklevel=3)
    return posterior, " ".join(remarks)


def _failed(call: Call, problem: Problem, reason: str) -> ComparisonRow:
    nothing = np.full(problem.inputs.shape[1], math.nan)
    return ComparisonRow(
        method=call.method,
        alpha=call.alpha,
        mean=nothing,
        deviation=nothing,
        log_evidence=math.nan,
        held_out=math.nan,
        seconds=math.nan,
        compiling=math.nan,
        converged=False,
        remark=reason,
    )


def _check_some_worked(rows: list[ComparisonRow]) -> None:
    """Raise if no method has a result."""
    if all(np.isnan(row.mean).any() for row in rows):
        raise ValueError(f"methods must not all fail; {rows[0].label}: {rows[0].remark}")
