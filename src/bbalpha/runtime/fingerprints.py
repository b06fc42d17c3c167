"""Fingerprints: what two runs must have in common for one to continue the other's checkpoint."""

import hashlib
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from bbalpha.engine.batches import Rows
from bbalpha.engine.loop import Plan
from bbalpha.state import FitState
from bbalpha.stopping import EarlyStopping

DIGEST_BYTES = 16  # of a hash; two are equal by chance once in 2¹²⁸

Facts = dict[str, Any]  # for JSON


def fingerprint(
    state: FitState, rows: Any, plan: Plan, early_stopping: EarlyStopping | None, settings: Facts
) -> Facts:
    """Everything that determines the result of a fit, by the names of its arguments.

    The program of a step contains every function of the fit; its text is the same in every process
    with the same version of jax. The last four facts change only rounding.

    Args:
        state: The state before the first step, of one run or of replicas.
        rows: The data, in memory or fed from a source.
        plan: The batches.
        early_stopping: A rule that may end the fit, or None.
        settings: Further arguments that determine the result.
    """
    method, variables = state.method, state.variables
    return settings | {
        "params": digest((variables.q, method.layout.paths, method.layout.shapes)),
        **_facts_of_rows(rows),
        "key": digest(state.key),
        "alpha": digest(state.alpha),
        "prior": digest((state.prior, variables.log_prior_scale)),
        "hyperparams": digest(variables.hyperparams),
        "optimizer": digest((state.optimizer, state.optimizer_state)),
        "batch_size": plan.batch_size,
        "num_samples": method.num_samples,
        "draws": method.draws,
        "sample_chunk": method.sample_chunk,
        "resample_every": method.resample_every,
        "early_stopping": digest(early_stopping and tuple(vars(early_stopping).values())),
        "program": digest(_text_of_step(state, rows, plan)),
        "jax": f"{jax.__version__} with jaxlib {version('jaxlib')}",
        "processor": processor(),
        "cores": cores(),
        "processes": jax.process_count(),
    }


def _facts_of_rows(rows: Any) -> Facts:
    if isinstance(rows, Rows):
        weights = digest((rows.sample_weight, rows.num_rows))
        return {"data": digest(rows.data), "sample_weight": weights}
    return {"data": digest(rows.identity())}


def _text_of_step(state: FitState, rows: Any, plan: Plan) -> str:
    """The text of the program of one step; with replicas, of one replica."""
    if state.step.ndim:
        state = jax.tree.map(lambda leaf: leaf[0], state)
    data, weights = (rows.data, rows.sample_weight) if isinstance(rows, Rows) else rows.example()
    if weights.ndim == 2:
        data, weights = jax.tree.map(lambda leaf: leaf[0], (data, weights))
    data, weights = jax.tree.map(lambda leaf: leaf[: plan.batch_size], (data, weights))
    noise = jax.eval_shape(state.noise_at, state.step)
    weights = weights.astype(state.dtype)
    return jax.jit(_step).lower(state, data, weights, noise).as_text()


def _step(state: FitState, batch: PyTree, weights: Any, noise: Any) -> Any:
    return state.advance(batch, weights, noise)


def digest(tree: PyTree) -> str:
    """A hash of all values of a tree, with their shapes and types."""
    found = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for leaf in jax.tree.leaves(tree, is_leaf=lambda leaf: leaf is None):
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        if isinstance(leaf, str) or not hasattr(leaf, "dtype"):
            found.update(repr(leaf).encode())
        else:
            array = np.asarray(leaf, order="C")
            found.update(f"{array.dtype}{array.shape}".encode())
            found.update(array.data)
    return found.hexdigest()


def processor() -> str:
    """The kind of device and, for a CPU, its instruction sets."""
    device = jax.devices()[0]
    if device.platform != "cpu":
        return f"{device.platform} {device.device_kind}"
    flags = ""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:  # not Linux
        flags = platform.processor()
    return f"{platform.machine()} {digest(flags)}"


def cores() -> int:
    """The number of cores that XLA uses."""
    named = os.environ.get("NPROC", "")
    if named.isdigit():
        return int(named)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
