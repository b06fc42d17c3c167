"""When a fit ends: convergence, held-out scores, callbacks, and the record of the run.

`engine/loop` asks a `Watch` between chunks of steps whether to stop.
"""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import PyTree

from bbalpha.convergence import Convergence, ConvergenceWarning, fall_of, mean_energies
from bbalpha.data import check_data, check_weights
from bbalpha.engine import streams, threefry
from bbalpha.engine.arrays import on_device, on_host
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
        return self.settled(state)

    def settled(self, state: FitState) -> FitState:
        """The state with the average variables, if the judge has averages to offer."""
        if self.judge is None:
            return state
        return dataclasses.replace(state, variables=self.judge.result(state.variables))

    def info(self, state: FitState, energies: np.ndarray, stopped: str) -> FitInfo:
        """The record of the run so far."""
        num_epochs = int(state.step) // self.plan.num_batches
        fall = self._fall(state, energies, stopped)
        is_settled = self.judge.converged if self.judge else stopped == "finished" and fall == 0
        return FitInfo(
            energies=tuple(energies[:num_epochs, -1].tolist()),
            held_out=tuple(self.held_out),
            num_steps=int(state.step),
            seconds=time.perf_counter() - self.started,
            stopped=stopped,
            converged=is_settled and self._is_late(state),
            fall=fall,
        )

    def warn(self, info: FitInfo) -> None:
        """Warn if the budget was used up before the fit converged, or if q ran away."""
        if self.leads and self.is_moving(info):
            warn(f"fit did not converge: {self.reason(info)}", ConvergenceWarning)

    def is_moving(self, info: FitInfo) -> bool:
        """Whether the run used up its budget before it converged, or q ran away."""
        is_settled = self.judge.converged if self.judge else info.fall == 0
        return info.stopped in ("finished", "diverged") and not is_settled

    def reason(self, info: FitInfo) -> str:
        """Why a run has not converged, and what to do."""
        return self.judge.reason(info.num_steps) if self.judge else reason_of_fall(info)

    @property
    def distance(self) -> float:
        """How far the means or deviations still move; infinite if they run away."""
        judge = self.judge
        return 0.0 if judge is None else math.inf if judge.runaway else max(judge.movement)

    def _fall(self, state: FitState, energies: np.ndarray, stopped: str) -> float:
        """How much the energy still fell in a finished run without a judge."""
        if self.judge is not None or stopped != "finished":
            return 0.0
        found = mean_energies(energies[: self.plan.num_epochs])
        first = int(_judged_from(state) * len(found))
        return fall_of(found, float(state.num_data), first)

    def _is_late(self, state: FitState) -> bool:
        """Whether the state that early stopping chose is one that the fit had settled at."""
        if self.early_stopping is None:
            return True
        if self.judge is not None:
            return self.judge.agrees(state.variables)
        quarter = (1 - _judged_from(state)) / 4  # the first one is not judged
        return int(state.step) >= (_judged_from(state) + quarter) * self.plan.num_steps

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
    """The work between the epochs of many replicas: judge each until all have ended.

    A replica that has ended takes further steps with the others. Its result is kept in its watch.
    """

    plan: Plan
    watches: list[Watch]

    @property
    def every(self) -> int:
        """How many epochs may pass between two looks."""
        return self.watches[0].every

    def look(self, state: FitState, energies: np.ndarray) -> tuple[FitState, str | None]:
        """The state to continue with, and the reason to stop now, if there is one."""
        if not state.is_natural:
            return state, None
        on_host = jax.tree.map(np.asarray, state.optimizer_state)
        rounds = []
        for replica, (watch, judge) in enumerate(self._judged()):
            rounds.append(judge.next_round(_row(on_host, replica)))
            if judge.ending and watch.best is None:
                watch.best = watch.settled(replica_of(state, replica))
        natural = jax.tree.map(lambda *leaves: on_device(np.stack(leaves)), *rounds)
        state = dataclasses.replace(state, optimizer_state=natural)
        steps = np.asarray(state.step)  # those behind are no longer finite
        have_ended = all(
            watch.best is not None or step < steps.max()
            for watch, step in zip(self.watches, steps, strict=True)
        )
        return state, "converged" if have_ended else None

    def result(self, state: FitState) -> FitState:
        """The states that the fits return, each from the time when it ended."""
        if not state.is_natural:
            return state
        steps, variables = np.array(state.step), jax.tree.map(np.asarray, state.variables)
        results = [judge.result(_row(variables, n)) for n, (_, judge) in enumerate(self._judged())]
        for replica, watch in enumerate(self.watches):
            if watch.best is not None:
                steps[replica], results[replica] = watch.best.step, watch.best.variables
        variables = jax.tree.map(lambda *leaves: jnp.stack(leaves), *results)
        return dataclasses.replace(state, variables=variables, step=jnp.asarray(steps))

    def reason(self, replica: int, state: FitState, stopped: str) -> str:
        """Why a replica ended, given the state of all at the end of the run."""
        judge = self.watches[replica].judge
        if judge is not None and judge.ending:
            return judge.ending
        return "non-finite" if state.step[replica] < np.max(state.step) else stopped

    def warn(self, infos: list[FitInfo]) -> None:
        """Warn if replicas have not converged: how many, and how far the worst still moves."""
        moving = [n for n, watch in enumerate(self.watches) if watch.is_moving(infos[n])]
        if moving:
            worst = max(moving, key=lambda n: max(self.watches[n].distance, infos[n].fall))
            warn(
                f"{len(moving)} of {len(infos)} replicas did not converge. In replica {worst}, "
                f"{self.watches[worst].reason(infos[worst])}",
                ConvergenceWarning,
            )

    def _judged(self) -> list[tuple[Watch, Convergence]]:
        return [(watch, watch.judge) for watch in self.watches if watch.judge is not None]


def reason_of_fall(info: FitInfo, remedy: str = "Raise num_epochs.") -> str:
    """Why a fit that was judged by its energies has not converged, and what to do."""
    num_epochs = len(info.energies)
    epochs = f"{num_epochs:,} epoch{'' if num_epochs == 1 else 's'}"
    if math.isinf(info.fall):
        return f"{epochs} with {info.num_steps:,} steps in all are too few to judge. {remedy}"
    return (
        f"the energy still fell by {info.fall:.2g} nats per data point in the middle of its "
        f"{epochs}. {remedy}"
    )


def _judged_from(state: FitState) -> float:
    """The share of a run after which energies are judged; a learned prior lowers them late."""
    return 0.0 if state.variables.log_prior_scale is None else WAIT


def replica_of(tree: PyTree, replica: int) -> Any:
    """One replica, taken from a state or posterior of all replicas."""
    return jax.tree.map(lambda leaf: on_device(on_host(leaf)[replica]), tree)


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
