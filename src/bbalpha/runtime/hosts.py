"""`join_processes`: this process joins others, on this machine or on many, to fit together."""

import importlib.util
import math
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
from jax.experimental import multihost_utils

from bbalpha.engine.checks import check_counts
from bbalpha.runtime.coordinator import LONGEST_WAIT
from bbalpha.runtime.failures import ProcessError, end_well
from bbalpha.runtime.places import CLUSTERS, OURS, is_started_by_mpi
from bbalpha.runtime.roll_call import Absent, call_roll, host_and_port, is_loopback

TIMEOUT_FLAG = "--xla_cpu_collective_timeout_seconds"
SUM_SHARE = 0.8  # of the time-out, for sums; the rest is for asking which processes survive


class Place(NamedTuple):
    """The place of a process among others; None for what is not known."""

    address: str | None
    num_processes: int | None
    process_id: int | None
    local_device_ids: Any = None


def join_processes(
    address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    cluster: str | None = None,
    timeout: float | int = 10.0,
    arrival_timeout: float | int = 300.0,
) -> None:
    """Join other processes; `fit` then spreads the rows of every batch over all of them.

    Call this in every process, before anything else that uses jax. An argument that is not given
    comes from the environment variables JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and
    JAX_PROCESS_ID, which `bbalpha launch` sets, or from the cluster: SLURM, Open MPI 4, other MPI
    (with mpi4py), Kubernetes (with `jax[k8s]`), Cloud TPU. Without any of these, the process stays
    alone and nothing happens.

    Every process must call `fit` with the same arguments. If one is lost, the others save what they
    have, raise a `ProcessError` and end with exit code 75.

    Args:
        address: The address of process 0, with a free port, such as "10.0.0.1:1234".
        num_processes: The number of processes.
        process_id: The number of this process, from 0.
        cluster: How to recognize the cluster, as in `jax.distributed.initialize`.
        timeout: Seconds after which a process that does not answer counts as lost.
        arrival_timeout: Seconds within which all processes must arrive.

    Raises:
        ValueError: If an argument breaks its rule or contradicts a variable.
        RuntimeError: If jax has been used before.
        ProcessError: If a process does not arrive; the message has its number.

    >>> bb.join_processes()  # alone
    """
    for name, seconds in {"timeout": timeout, "arrival_timeout": arrival_timeout}.items():
        if not 0 < seconds < math.inf:
            raise ValueError(f"{name} must be positive and finite; got {name}={seconds}.")
    given = _given(address, num_processes, process_id)
    place = _complete(given, cluster, arrival_timeout)
    if place is None:
        return
    if jax.distributed.is_initialized():
        raise RuntimeError("join_processes must be called once; this process has joined already.")
    _check_unused()
    _set_timeout(timeout)
    end_well(timeout)
    try:
        if None not in place[:3]:
            call_roll(*place[:3], arrival_timeout)  # pyright: ignore[reportArgumentType]
        _initialize(place, cluster, timeout, arrival_timeout)
        _meet()
    except Absent as error:
        raise ProcessError(str(error)) from None


def _given(address: str | None, num_processes: Any, process_id: Any) -> Place:
    """The place of this process according to arguments and variables.

    Raises:
        ValueError: If they contradict each other or break a rule.
    """
    arguments = {"address": address, "num_processes": num_processes, "process_id": process_id}
    found = {}
    for name, value in arguments.items():
        variable = os.environ.get(OURS[name]) or None
        if name != "address" and variable is not None:
            variable = _whole_number(OURS[name], variable)
        if value is not None and variable not in (None, value):
            raise _contradiction(name, value, OURS[name], variable)
        found[name] = variable if value is None else value
    for mark, variables in CLUSTERS.items():
        for name, variable in variables.items():
            text = os.environ.get(variable) if mark in os.environ else None
            value = arguments[name]
            if text and value is not None and _whole_number(variable, text) != value:
                raise _contradiction(name, value, variable, text)
    place = Place(**found)
    _check(place)
    return place


def _check(place: Place) -> None:
    address, count, number, _ = place
    if address is not None:
        host_and_port(address)
    if count is not None:
        check_counts(num_processes=count)
    if number is None:
        return
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"process_id must be a whole number; got process_id={number!r}.")
    if number < 0 or (count is not None and number >= count):
        most = "" if count is None else f" and less than num_processes={count}"
        raise ValueError(f"process_id must be at least 0{most}; got process_id={number}.")


def _whole_number(variable: str, text: str) -> int:
    if not text.isdigit():
        raise ValueError(f"{variable} must be a whole number; got {variable}={text!r}.")
    return int(text)


def _contradiction(name: str, value: Any, variable: str, found: Any) -> ValueError:
    return ValueError(
        f"{name} must agree with the variable {variable}={found}; got {name}={value!r}."
    )


def _complete(place: Place, cluster: str | None, timeout: float) -> Place | None:
    """The place, completed by what the cluster knows, or None if this process is alone.

    Raises:
        ValueError: If something is missing.
    """
    if None not in place[:3]:
        return place
    if cluster == "mpi4py" and importlib.util.find_spec("mpi4py") is None:
        raise ValueError(
            'cluster must not be "mpi4py" unless mpi4py is installed; MPI other than Open MPI 4 '
            "needs it."
        )
    try:
        from jax._src.clusters import ClusterEnv  # jax has no public name for what it detects

        found = ClusterEnv.auto_detect_unset_distributed_params(*place, cluster, math.ceil(timeout))
    except (ImportError, AttributeError):  # jax then detects the cluster when it starts
        return place if cluster or any(mark in os.environ for mark in CLUSTERS) else None
    place = Place(*found)
    if place[:3] == (None, None, None) and cluster is None:
        return _complete(place, "mpi4py", timeout) if is_started_by_mpi() else None
    missing = [name for name, value in zip(OURS, place, strict=False) if value is None]
    if missing:
        raise ValueError(
            f"{missing[0]} must be given if neither a variable nor a cluster provides it; got "
            f"{missing[0]}=None. The variable is {OURS[missing[0]]}."
        )
    return place


def _check_unused() -> None:
    """Raise if jax has already looked for devices, because it would miss those of others."""
    try:
        from jax._src.xla_bridge import backends_are_initialized
    except ImportError:  # jax will raise its own error
        return
    if backends_are_initialized():
        raise RuntimeError("join_processes must be called before anything else that uses jax.")


def _meet() -> None:
    """Connect all processes by a first sum over them.

    Raises:
        Absent: If they cannot reach each other.
    """
    try:
        with _without_output():
            multihost_utils.sync_global_devices("bbalpha")
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        raise Absent(
            "The processes cannot reach each other; the name of each machine must resolve, on that "
            f"machine, to an address that the others can reach. Process {jax.process_index()} is "
            f"on {socket.gethostname()}. {str(error).splitlines()[0]}"
        ) from None


@contextmanager
def _without_output() -> Iterator[None]:
    """Discard output in the block, because gloo prints a greeting to standard output."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def _set_timeout(timeout: float) -> None:
    """Let sums over processes fail after some seconds; otherwise they would wait for hung ones."""
    flags = os.environ.get("XLA_FLAGS", "")
    if TIMEOUT_FLAG not in flags:
        seconds = math.ceil(SUM_SHARE * timeout)
        os.environ["XLA_FLAGS"] = f"{flags} {TIMEOUT_FLAG}={seconds}".strip()


def _initialize(place: Place, cluster: str | None, timeout: float, arrival: float) -> None:
    """Start jax's own coordination."""
    # That service would handle SIGTERM; we want `fit` to do so, at the end of a chunk of steps.
    jax.config.update("jax_enable_preemption_service", False)
    address, num_processes, process_id, local_device_ids = place
    bind = address if address is not None and is_loopback(address) else None
    jax.distributed.initialize(
        address,
        num_processes,
        process_id,
        local_device_ids,
        cluster,
        math.ceil(arrival),
        math.ceil(timeout),
        LONGEST_WAIT,
        bind,
    )
