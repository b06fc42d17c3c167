"""Step nine: the host's loop over compiled chunks of steps.

Between chunks the host shows progress, calls back, scores held-out data and notices Ctrl-C.
"""

import dataclasses
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from bbalpha.engine.epochs import CHUNK_EPOCHS, Order
from bbalpha.posterior import FitInfo
from bbalpha.engine.progress import progress_bar
from bbalpha.training import FitState

CHUNK_SECONDS = 0.5  # how long the host leaves the compiled loop alone
HELD_OUT_STREAM = 2**32 - 2  # beside the noise of the steps, which are fewer


@dataclasses.dataclass(frozen=True)
class EarlyStopping:
    """Stop when the log-likelihood of held-out data no longer grows.

    Whatever ends the fit, Ctrl-C included, the posterior is the one that scored best; that of a
    `NonFiniteEnergyError` is the last one that was finite.

    Attributes:
        data: held-out data, in the form of the training data.
        patience: how many epochs to wait for a better score.
        every: how many epochs lie between two scores.
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


class Plan(NamedTuple):
    """How the rows are gone through."""

    batch_size: int
    num_batches: int
    num_epochs: int

    @property
    def num_steps(self) -> int:
        """How many minibatches the run goes through."""
        return self.num_epochs * self.num_batches


@dataclasses.dataclass
class Watch:
    """What the host does between epochs: score held-out data, call back, keep the record."""

    early_stopping: EarlyStopping | None
    callback: Callable[[FitState, FitInfo], bool | None] | None
    plan: Plan
    held_out: list[tuple[int, float]] = dataclasses.field(default_factory=list)
    best: FitState | None = None
    started: float = dataclasses.field(default_factory=time.perf_counter)

    @property
    def every(self) -> int:
        """How many epochs the compiled loop may run before it must stop for a look."""
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
        """What is known of the run."""
        num_epochs = int(state.step) // self.plan.num_batches
        return FitInfo(
            energies=tuple(energies[:num_epochs].tolist()),
            held_out=tuple(self.held_out),
            num_steps=int(state.step),
            seconds=time.perf_counter() - self.started,
            stopped=stopped,
        )

    def _score(self, state: FitState) -> bool:
        """Score the held-out data if it is time to; whether patience has run out."""
        rule = self.early_stopping
        if rule is None:
            return False
        epoch = int(state.step) // self.plan.num_batches
        if epoch % rule.every and epoch < self.plan.num_epochs:
            return False
        densities = state.posterior().log_density(
            state.method.log_likelihood,
            rule.data,
            key=jax.random.fold_in(state.key, HELD_OUT_STREAM),
            num_samples=rule.num_samples,
        )
        score = np.average(np.asarray(densities, np.float64), weights=rule.sample_weight)
        self.held_out.append((epoch, float(score)))
        best_epoch, _ = max(self.held_out, key=lambda pair: np.nan_to_num(pair[1], nan=-np.inf))
        if best_epoch == epoch:
            self.best = state
        return epoch - best_epoch >= rule.patience


def train(
    run: Callable[..., tuple[FitState, Order, Array, Array]],
    state: FitState,
    order: Order,
    plan: Plan,
    watch: Watch,
    progress: bool,
) -> tuple[FitState, np.ndarray, str]:
    """The state at the end, the energy of every epoch, and why it ended."""
    energies = np.zeros((*state.step.shape, plan.num_epochs))
    chunk, done, stopped, running = 1, 0, None, None
    with progress_bar(progress, "epoch", plan.num_epochs) as show:
        try:
            while done < plan.num_steps and stopped is None:
                started = time.perf_counter()
                next_look = (done // (watch.every * plan.num_batches) + 1) * watch.every
                ends = (next_look * plan.num_batches, plan.num_steps)
                num_steps = min(chunk, CHUNK_EPOCHS * plan.num_batches, min(ends) - done)
                running = run(state, order=order, num_steps=jnp.asarray(num_steps))
                state, order, sums, finite = jax.block_until_ready(running)
                epoch = done // plan.num_batches
                seen = energies[..., epoch : epoch + sums.shape[-1]]
                seen += np.asarray(sums)[..., : seen.shape[-1]]
                done += num_steps
                epoch = done // plan.num_batches
                if epoch > 0:
                    energy = float(np.mean(energies[..., epoch - 1]))
                    show(done / plan.num_batches, f"energy {energy:.4g}")
                if not np.any(finite):
                    stopped = "non-finite"
                elif done == min(ends):
                    stopped = watch.look(state, energies)
                speed = num_steps / (time.perf_counter() - started)
                chunk = max(1, min(int(speed * CHUNK_SECONDS), 4 * chunk))
        except KeyboardInterrupt:
            stopped = "interrupted"
            jax.block_until_ready(running)  # if it ran on, it could crash the interpreter's exit
    if watch.best is not None and stopped != "non-finite":
        state = watch.best
    return state, energies, stopped or "finished"
