"""When a fit ends: held-out scores, callbacks, and the record of the run."""

import dataclasses
import time
from collections.abc import Callable

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import PyTree

from bbalpha.data import check_data, check_weights
from bbalpha.engine import streams, threefry
from bbalpha.engine.checks import check_counts
from bbalpha.engine.epochs import CHUNK_EPOCHS
from bbalpha.engine.loop import Plan
from bbalpha.posterior import FitInfo
from bbalpha.state import FitState, check_likelihood

Callback = Callable[[FitState, FitInfo], bool | None]


@dataclasses.dataclass(frozen=True)
class EarlyStopping:
    """Stop when the log-likelihood of held-out data no longer grows.

    However the fit ends, Ctrl-C included, it returns the posterior with the best score; only a
    `NonFiniteEnergyError` carries the last finite one instead.

    Attributes:
        data: held-out data, in the form of the training data.
        patience: how many epochs to wait for a better score.
        every: how many epochs to train between two scores.
        num_samples: how many draws a score takes.
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
    """What the host does between epochs: score held-out data, call back, keep the record."""

    early_stopping: EarlyStopping | None
    callback: Callback | None
    plan: Plan
    held_out: list[tuple[int, float]] = dataclasses.field(default_factory=list)
    best: FitState | None = None
    started: float = dataclasses.field(default_factory=time.perf_counter)

    @property
    def every(self) -> int:
        """How many epochs may pass between two looks."""
        if self.callback is not None:
            return 1
        return CHUNK_EPOCHS if self.early_stopping is None else self.early_stopping.every

    def look(self, state: FitState, energies: np.ndarray) -> str | None:
        """The reason to stop now, if there is one."""
        is_over = self._score(state)
        if self.callback and self.callback(state, self.info(state, energies, "running")):
            return "callback"
        return "early" if is_over else None

    def info(self, state: FitState, energies: np.ndarray, stopped: str) -> FitInfo:
        """The record of the run so far."""
        num_epochs = int(state.step) // self.plan.num_batches
        return FitInfo(
            energies=tuple(energies[:num_epochs].tolist()),
            held_out=tuple(self.held_out),
            num_steps=int(state.step),
            seconds=time.perf_counter() - self.started,
            stopped=stopped,
        )

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


def check_early_stopping(state: FitState, rule: EarlyStopping) -> None:
    """Raise unless the counts, the data and the weights of a rule are valid."""
    for name in ("patience", "every", "num_samples"):
        check_counts(**{f"early_stopping.{name}": getattr(rule, name)})
    num_rows = check_data(rule.data, "early_stopping.data")
    if rule.sample_weight is not None:
        name = "early_stopping.sample_weight"
        check_weights(np.asarray(rule.sample_weight), (num_rows,), name)
    check_likelihood(state, rule.data, batch_size=1)
