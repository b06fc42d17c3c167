"""When a fit ends: convergence, held-out scores, callbacks, and the record of the run.

`engine/loop` asks a `Watch` between chunks of steps whether to stop.
"""

import dataclasses
import math
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import PyTree

from bbalpha.convergence import Convergence, ConvergenceWarning, fall_of
from bbalpha.data import check_data, check_weights
from bbalpha.engine import streams, threefry
from bbalpha.engine.arrays import on_device
from bbalpha.engine.checks import check_counts, warn
from bbalpha.engine.epochs import CHUNK_EPOCHS
from bbalpha.engine.loop import Plan
from bbalpha.engine.optimizers import WAIT
from bbalpha.posterior import FitInfo
from bbalpha.state import FitState, check_likelihood

Callback = Callable[[FitState, FitInfo], bool | None]


@dataclasses.dataclass(frozen=True)
class EarlyStopping:
    """Stop when the log-likelihood of held-out data no longer improves.

    However the fit ends, even by Ctrl-C, it returns the posterior with the best score. The only
    exception is a `NonFiniteEnergyError`, which carries the last finite posterior.

    Attributes:
        data: held-out data, in the form of the training data.
        patience: number of epochs to wait for a better score.
        every: number of epochs between two scores.
        num_samples: number of draws per score.
        sample_weight: how many data points each held-out row stands for; 1 by default.

    >>> def log_likelihood(mean, batch):
    ...     return jax.scipy.stats.norm.logpdf(batch, mean)
    >>> rule = bb.EarlyStopping(jnp.array([0.5, 1.5]), patience=5)
    >>> posterior = bb.fit(
    ...     log_likelihood,
    ...     jnp.zeros(()),
    ...     jnp.array([3.0, 4.0, 5.0]),
    ...     key=jax.random.key(0),
    ...     early_stopping=rule,
    ... )
    >>> posterior.info.stopped
    'early'
    """

    data: PyTree
    patience: int = 20
    every: int = 1
    num_samples: int = 100
    sample_weight: ArrayLike | None = None


@dataclasses.dataclass
class Watch:
    """The work between epochs: judge, score held-out data, call back, and keep the record."""

    plan: Plan
    judge: Convergence | None = None
    early_stopping: EarlyStopping | None = None
    callback: Callback | None = None
    held_out: list[tuple[int, float]] = dataclasses.field(default_factory=list)
    best: FitState | None = None
    fall: float = math.inf  # of the energy in the third quarter of the run, in nats per data point
    started: float = dataclasses.field(default_factory=time.perf_counter)
    leads: bool = True  # only one of several processes calls back and warns

    def follow(self) -> None:
        """Leave callbacks and warnings to another process."""
        self.leads = False

    @property
    def every(self) -> int:
        """How many epochs may pass between two looks."""
        if self.callback is not None:
            return 1
        if self.early_stopping is not None:
            return self.early_stopping.every
        if self.judge is None:
            return CHUNK_EPOCHS
        return -(-self.judge.round_steps // self.plan.num_batches)

    def look(self, state: FitState, energies: np.ndarray) -> tuple[FitState, str | None]:
        """The state to continue with, and the reason to stop now, if there is one."""
        is_over = self._score(state)
        if self.judge is not None:
            natural = self.judge.next_round(state.optimizer_state)
            state = dataclasses.replace(state, optimizer_state=natural)
        if (
            self.callback
            and self.leads
            and self.callback(state, self.info(state, energies, "running"))
        ):
            return state, "callback"
        if is_over:
            return state, "early"
        return state, self.judge.ending if self.judge else None

    def result(self, state: FitState, stopped: str) -> FitState:
        """The state that the fit returns: the best one, the average, or the last."""
        if stopped == "non-finite":
            return state
        if self.best is not None:
            return self.best
        if self.judge is None:
            return state
        return dataclasses.replace(state, variables=self.judge.result(state.variables))

    def info(self, state: FitState, energies: np.ndarray, stopped: str) -> FitInfo:
        """The record of the run so far."""
        num_epochs = int(state.step) // self.plan.num_batches
        return FitInfo(
            energies=tuple(energies[:num_epochs].tolist()),
            held_out=tuple(self.held_out),
            num_steps=int(state.step),
            seconds=time.perf_counter() - self.started,
            stopped=stopped,
            converged=self._is_settled(state, energies, stopped),
        )

    def warn(self, info: FitInfo) -> None:
        """Warn if the budget was used up before the fit converged, or if q ran away."""
        if not self.leads or info.stopped not in ("finished", "diverged") or info.converged:
            return
        if self.judge is not None:
            reason = self.judge.reason(info.num_steps)
        else:
            reason = reason_of_fall(self.fall, len(info.energies))
        warn(f"fit did not converge: {reason}", ConvergenceWarning)

    def _is_settled(self, state: FitState, energies: np.ndarray, stopped: str) -> bool:
        if self.judge is not None:
            return self.judge.converged
        if stopped != "finished":
            return False
        energies = energies[: self.plan.num_epochs]
        learns_prior = state.variables.log_prior_scale is not None
        first = int(WAIT * self.plan.num_epochs) if learns_prior else 0
        self.fall = fall_of(energies, float(state.num_data), first)
        return self.fall == 0

    def _score(self, state: FitState) -> bool:
        """Score the held-out data if it is time to; return whether patience has run out."""
        rule = self.early_stopping
        if rule is None:
            return False
        epoch = int(state.step) // self.plan.num_batches
        if epoch % rule.every and epoch < self.plan.num_epochs:
            return False
        densities = state.posterior().log_density(
            state.method.log_likelihood,
            rule.data,
            key=threefry.fold_in(state.key, streams.HELD_OUT),
            num_samples=rule.num_samples,
        )
        score = np.average(np.asarray(densities, np.float64), weights=rule.sample_weight)
        self.held_out.append((epoch, float(score)))
        best_epoch, _ = max(self.held_out, key=lambda pair: np.nan_to_num(pair[1], nan=-np.inf))
        if best_epoch == epoch:
            self.best = state
        return epoch - best_epoch >= rule.patience


@dataclasses.dataclass
class ReplicaWatch:
    """The work between the epochs of many replicas: judge each until all have ended."""

    plan: Plan
    watches: list[Watch]
    steps: dict[int, int] = dataclasses.field(default_factory=dict)  # of replicas that converged
    diverged: set[int] = dataclasses.field(default_factory=set)

    @property
    def every(self) -> int:
        """How many epochs may pass between two looks."""
        return self.watches[0].every

    def look(self, state: FitState, energies: np.ndarray) -> tuple[FitState, str | None]:
        """The state to continue with, and the reason to stop now, if there is one."""
        if not state.is_natural:
            return state, None
        judges = [watch.judge for watch in self.watches if watch.judge]
        natural = jax.tree.map(np.asarray, state.optimizer_state)
        rounds = []
        for replica, judge in enumerate(judges):
            rounds.append(judge.next_round(_row(natural, replica)))
            if judge.converged:
                self.steps.setdefault(replica, int(state.step[replica]))
            if judge.runaway:
                self.diverged.add(replica)
        natural = jax.tree.map(lambda *leaves: on_device(np.stack(leaves)), *rounds)
        state = dataclasses.replace(state, optimizer_state=natural)
        have_ended = len(self.diverged.union(self.steps)) == len(judges)
        return state, "converged" if have_ended else None

    def result(self, state: FitState) -> FitState:
        """The states that the fits return, each from the time when it converged."""
        if not state.is_natural:
            return state
        steps = np.array(state.step)
        steps[list(self.steps)] = list(self.steps.values())
        variables = jax.tree.map(np.asarray, state.variables)
        results = [
            watch.judge.result(_row(variables, replica)) if watch.judge else None
            for replica, watch in enumerate(self.watches)
        ]
        variables = jax.tree.map(lambda *leaves: jnp.stack(leaves), *results)
        return dataclasses.replace(state, variables=variables, step=jnp.asarray(steps))

    def reason(self, replica: int, state: FitState, stopped: str) -> str:
        """Why a replica ended, given the state of all at the end of the run."""
        if replica in self.steps:
            return "converged"
        if replica in self.diverged:
            return "diverged"
        return "non-finite" if state.step[replica] < np.max(state.step) else stopped

    def warn(self, infos: list[FitInfo]) -> None:
        """Warn if replicas used up the budget before they converged, or ran away; say how many."""
        endings = ("finished", "diverged")
        moving = [info for info in infos if info.stopped in endings and not info.converged]
        if self.diverged:
            first = min(self.diverged)
            judge = self.watches[first].judge
            assert judge is not None
            warn(
                f"{len(moving)} of {len(infos)} replicas did not converge. In replica {first}, "
                f"{judge.reason(infos[first].num_steps)}",
                ConvergenceWarning,
            )
        elif moving:
            warn(
                f"{len(moving)} of {len(infos)} replicas did not converge in "
                f"{self.plan.num_epochs:,} epochs. Raise num_epochs.",
                ConvergenceWarning,
            )


def reason_of_fall(fall: float, num_epochs: int) -> str:
    """Why a fit whose energy was still falling has not converged, and what to do."""
    if math.isinf(fall):
        return f"{num_epochs} epochs are too few to judge. Raise num_epochs."
    return (
        f"the energy still fell by {fall:.2g} nats per data point in the middle of its "
        f"{num_epochs:,} epochs. Raise num_epochs."
    )


def _row(tree: PyTree, replica: int) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[replica], tree)


def check_early_stopping(state: FitState, rule: EarlyStopping) -> None:
    """Raise unless the counts, the data and the weights of a rule are valid."""
    for name in ("patience", "every", "num_samples"):
        check_counts(**{f"early_stopping.{name}": getattr(rule, name)})
    num_rows = check_data(rule.data, "early_stopping.data")
    if rule.sample_weight is not None:
        name = "early_stopping.sample_weight"
        check_weights(np.asarray(rule.sample_weight), (num_rows,), name)
    check_likelihood(state, rule.data, batch_size=1)
