"""Checkpoints: a fit that was killed continues from the last one and ends with the same bits.

A checkpoint holds the state, the record of the run, and a fingerprint of everything that determines
the result. Each step depends only on the state, so it does not matter when checkpoints are written.
"""

import dataclasses
import math
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from bbalpha.convergence import NOT_JUDGED, Movement
from bbalpha.engine.arrays import on_device
from bbalpha.engine.checks import check_counts, warn
from bbalpha.engine.loop import Start, start_at
from bbalpha.files import model_file
from bbalpha.files.atomic import remove_leftovers
from bbalpha.files.wording import one_line
from bbalpha.runaway import Runaway
from bbalpha.runtime.fingerprints import Facts
from bbalpha.state import FitState
from bbalpha.stopping import ReplicaWatch, Watch

KIND = "checkpoint"
NAME = re.compile(r"step-([0-9]{12})\.safetensors")
GOES_ON = ("interrupted", "terminated")  # reasons to stop after which a run may continue
JUDGED = ("round_steps", "movement", "fastest", "is_noisy", "converged", "num_lowered")
ROUNDING = ("jax", "processor", "cores", "processes")  # facts that change only rounding


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A folder in which a fit saves its state, and from which the same fit continues.

    A folder belongs to one fit. If that fit has ended, calling it again returns its result.

    Attributes:
        folder: The folder, which is created if it does not exist.
        seconds: Seconds of training between two checkpoints.
        keep: Number of checkpoints to keep, in case the newest is damaged.

    >>> import tempfile
    >>> def log_likelihood(mean, batch):
    ...     return jax.scipy.stats.norm.logpdf(batch, mean)
    >>> data = jnp.array([0.5, 1.5, 2.5])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fits = [
    ...         bb.fit(
    ...             log_likelihood, jnp.zeros(()), data, key=jax.random.key(0), checkpoint=folder
    ...         )
    ...         for _ in range(2)  # the second finds the result of the first
    ...     ]
    >>> bool(fits[0].mean == fits[1].mean)
    True
    """

    folder: str | Path
    seconds: float = 10.0
    keep: int = 2


@dataclasses.dataclass
class Keeper:
    """Writes the checkpoints of one run, and reads them."""

    checkpoint: Checkpoint
    facts: Facts
    watch: Watch | ReplicaWatch
    saved_at: float = dataclasses.field(default_factory=time.perf_counter)
    own: list[Path] = dataclasses.field(default_factory=list)  # checkpoints of this run
    writes: bool = True  # only one of several processes writes

    def save_if_due(self, state: FitState, energies: np.ndarray, stopped: str | None) -> None:
        """Write a checkpoint if the run has ended or enough time has passed."""
        if not self.writes:
            return
        if stopped is None and time.perf_counter() - self.saved_at < self.checkpoint.seconds:
            return
        try:
            self.save(state, energies, stopped)
        except OSError as error:
            warn(f"A checkpoint was not saved; the fit continues: {error}")
        self.saved_at = time.perf_counter()

    def save(self, state: FitState, energies: np.ndarray, stopped: str | None = None) -> None:
        """Write a checkpoint, and remove the oldest ones.

        Raises:
            OSError: If it cannot be written.
        """
        folder, step = Path(self.checkpoint.folder), int(np.max(state.step))
        memories = [_memory(watch) for watch in _watches(self.watch)]
        num_epochs = -(-step // self.watch.plan.num_batches)
        tree = {
            "state": state,
            "energies": energies[..., :num_epochs, :],
            "watches": [arrays for arrays, _ in memories],
        }
        record = {
            "stopped": stopped,
            "num_epochs": self.watch.plan.num_epochs,
            "seconds": time.perf_counter() - _watches(self.watch)[0].started,
            "watches": [facts for _, facts in memories],
        }
        metadata = {"kind": KIND, "facts": self.facts, "record": record}
        path = folder / f"step-{step:012d}.safetensors"
        self.own = sorted({*self.own, path})
        model_file.write(path, _plain(tree), metadata)
        self.own = list(filter(Path.exists, self.own))
        for old in self.own[: -self.checkpoint.keep]:
            old.unlink(missing_ok=True)

    def restored(self, start: Start, rows: Any) -> Start:
        """The run as saved in the newest readable checkpoint, or else the start, which is saved.

        Damaged checkpoints are not removed, because they may be somebody else's files.

        Raises:
            ValueError: If the checkpoint belongs to another fit (the message names the arguments
                that differ), or if its contents are invalid.
            OSError: If the folder cannot be written to.
        """
        newest, facts = None, None
        for path in sorted(Path(self.checkpoint.folder).iterdir(), reverse=True):
            if not NAME.fullmatch(path.name):
                continue
            try:
                arrays, metadata = model_file.read(path)
            except (OSError, ValueError) as error:
                warn(f"A checkpoint was skipped: {error}")
                continue
            if newest is None:
                self._check(metadata, path)
                newest, facts = (arrays, metadata.get("record", {}), path), metadata["facts"]
            if metadata.get("facts") == facts:
                self.own.insert(0, path)
        if newest is None:
            if self.writes:
                self.save(start.state, start.energies)
            return start
        try:
            start = self._filled(start, rows, *newest)
        except (LookupError, TypeError, AttributeError):
            raise _invalid(newest[2], "its record is not that of a fit") from None
        self._check_budget(start)
        return start

    def _check(self, metadata: dict[str, Any], path: Path) -> None:
        """Raise unless the fingerprints agree; only warn if the difference is one of rounding."""
        found = metadata.get("facts")
        if metadata.get("kind") != KIND or not isinstance(found, dict):
            raise ValueError(f"checkpoint must be a folder of checkpoints; got {path.name} in it.")
        names = [
            name for name in {**self.facts, **found} if self.facts.get(name) != found.get(name)
        ]
        rounding = [name for name in names if name in ROUNDING]
        others = [name for name in names if name not in ROUNDING]
        if "jax" in rounding:  # the text of a program depends on the version of jax
            others = [name for name in others if name != "program"]
        if others:
            named = ["a function of the model" if name == "program" else name for name in others]
            raise ValueError(
                "checkpoint must be a folder of the same fit; got "
                f"{self.checkpoint.folder}, of a fit that differs in {one_line(', '.join(named))}. "
                "Use another folder."
            )
        if rounding:
            changes = (f"{name} was {found.get(name)}, is {self.facts[name]}" for name in rounding)
            warn(
                "The checkpoint was written elsewhere, so results may differ by rounding: "
                f"{one_line('; '.join(changes))}."
            )

    def _check_budget(self, start: Start) -> None:
        """Raise if the saved run has already taken more steps than it may now."""
        plan, step = self.watch.plan, int(np.max(start.state.step))
        if step > plan.num_steps:
            raise ValueError(
                f"num_epochs must be at least {-(-step // plan.num_batches):,}, because the fit in "
                f"{self.checkpoint.folder} has taken {step:,} steps; got "
                f"num_epochs={plan.num_epochs}. Use another folder."
            )

    def _filled(
        self, start: Start, rows: Any, arrays: dict, record: dict[str, Any], path: Path
    ) -> Start:
        """The run as it was saved."""
        plan, watches = self.watch.plan, _watches(self.watch)
        if len(record["watches"]) != len(watches):
            raise LookupError
        like: dict[str, Any] = {"state": start.state, "energies": arrays["['energies']"]}
        one = _first(start.state) if isinstance(self.watch, ReplicaWatch) else start.state
        like["watches"] = [_shape(one, facts) for facts in record["watches"]]
        tree = _keyed(model_file.fill(_plain(like), arrays, path, exact=True), like)
        _check_state(tree["state"], path)
        for watch, parts, facts in zip(watches, tree["watches"], record["watches"], strict=True):
            _remember(watch, parts, facts, record["seconds"])
        energies = start.energies
        seen = np.asarray(tree["energies"])[..., : plan.num_epochs, :]
        if seen.ndim != energies.ndim or seen.shape[-1] != plan.num_parts:
            raise LookupError
        energies[..., : seen.shape[-2], :] = seen
        stopped = None if record["stopped"] in GOES_ON else record["stopped"]
        if stopped == "finished" and record["num_epochs"] < plan.num_epochs:
            stopped = None
        state = jax.tree.map(on_device, tree["state"])
        return start_at(state, rows, plan, energies, stopped)


def keeper_of(checkpoint: Any, facts: Facts, watch: Watch | ReplicaWatch) -> Keeper:
    """The keeper of a run; creates its folder and removes unfinished files from it.

    Raises:
        ValueError: If a setting breaks its rule.
        OSError: If the folder cannot be made or written to.
    """
    if not isinstance(checkpoint, Checkpoint):
        if not isinstance(checkpoint, str | Path):
            raise TypeError(
                f"checkpoint must be a folder or a bb.Checkpoint; got checkpoint={checkpoint!r}."
            )
        checkpoint = Checkpoint(checkpoint)
    check_counts(**{"checkpoint.keep": checkpoint.keep})
    seconds, folder = checkpoint.seconds, Path(checkpoint.folder)
    if not 0 <= seconds < math.inf:
        raise ValueError(
            f"checkpoint.seconds must be finite and not negative; got checkpoint.seconds={seconds}."
        )
    try:
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"checkpoint must be a folder; got the file {folder}.")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"{folder} cannot be made: {error.strerror}.") from None
    remove_leftovers(folder)
    return Keeper(checkpoint, facts, watch)


def _check_state(state: FitState, path: Path) -> None:
    """Raise unless the state is finite and at the step that its file is named for."""
    if int(np.max(state.step)) != int(path.stem.removeprefix("step-")) or np.min(state.step) < 0:
        raise _invalid(path, "it is named for another step")
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.variables)):
        raise _invalid(path, "its state is not finite")


def _invalid(path: Path, problem: str) -> ValueError:
    return ValueError(f"{path.name} is not a valid checkpoint: {problem}.")


def _watches(watch: Watch | ReplicaWatch) -> Sequence[Watch]:
    return watch.watches if isinstance(watch, ReplicaWatch) else [watch]


def _memory(watch: Watch) -> tuple[PyTree, Facts]:
    """What a watch has recorded, as arrays and as facts for JSON."""
    judge = watch.judge
    arrays = {"best": watch.best, "rounds": judge.rounds if judge else []}
    facts: Facts = {"held_out": watch.held_out, "has_best": watch.best is not None}
    if judge:
        facts["num_rounds"] = len(judge.rounds)
        facts["judge"] = {name: getattr(judge, name) for name in JUDGED}
        facts["runaway"] = [each.tolist() for each in judge.runaway] if judge.runaway else None
    return arrays, facts


def _shape(state: FitState, facts: Facts) -> PyTree:
    """Arrays with the shapes of those that `_memory` returns."""
    count = facts.get("num_rounds", 0)
    rounds = [state.optimizer_state.record] * count if count else []
    return {"best": state if facts["has_best"] else None, "rounds": rounds}


def _remember(watch: Watch, arrays: PyTree, facts: Facts, seconds: float) -> None:
    """Restore what a watch had recorded."""
    watch.held_out = [(int(epoch), float(score)) for epoch, score in facts["held_out"]]
    watch.best = arrays["best"] and jax.tree.map(on_device, arrays["best"])
    watch.started = time.perf_counter() - seconds
    if watch.judge:
        for name, value in facts["judge"].items():
            setattr(watch.judge, name, value)
        movement = Movement(*facts["judge"]["movement"])
        watch.judge.movement = NOT_JUDGED if movement == NOT_JUDGED else movement
        if facts["runaway"]:
            watch.judge.runaway = Runaway(*map(np.array, facts["runaway"]))
        watch.judge.rounds = [jax.tree.map(np.asarray, one) for one in arrays["rounds"]]


def _plain(tree: PyTree) -> PyTree:
    """The tree with random keys replaced by their raw words."""
    return jax.tree.map(lambda leaf: jax.random.key_data(leaf) if _is_key(leaf) else leaf, tree)


def _keyed(tree: PyTree, like: PyTree) -> PyTree:
    """The tree with raw words turned back into random keys where `like` has keys."""

    def keyed(leaf: Any, other: Any) -> Any:
        if not _is_key(other):
            return leaf
        return jax.random.wrap_key_data(leaf, impl=str(jax.random.key_impl(other)))

    return jax.tree.map(keyed, tree, like)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _first(state: FitState) -> FitState:
    return jax.tree.map(lambda leaf: leaf[0], state)
