"""Joining: arguments, variables and clusters, and what they must not say."""

import importlib.util
import os

import jax
import pytest

import bbalpha as bb
from bbalpha.runtime import hosts
from bbalpha.runtime.hosts import Place, _complete, _given, _set_timeout

VARIABLES = [*hosts.OURS.values(), "SLURM_STEP_NODELIST", "JOB_COMPLETION_INDEX", "XLA_FLAGS"]


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in (*VARIABLES, "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


def test_without_arguments_variables_and_cluster_a_process_stays_alone():
    bb.join_processes()
    assert not jax.distributed.is_initialized()


def test_variables_stand_for_arguments(monkeypatch):
    monkeypatch.setenv("JAX_COORDINATOR_ADDRESS", "10.0.0.1:1234")
    monkeypatch.setenv("JAX_NUM_PROCESSES", "4")
    assert _given(None, None, 3) == Place("10.0.0.1:1234", 4, 3)


@pytest.mark.parametrize(
    ("variable", "value", "arguments", "message"),
    [
        ("JAX_NUM_PROCESSES", "4", {"num_processes": 2}, "num_processes must agree with"),
        ("JAX_PROCESS_ID", "1", {"process_id": 0}, "process_id must agree with the"),
        ("JAX_COORDINATOR_ADDRESS", "a:1", {"address": "b:1"}, "address must agree"),
        ("JAX_PROCESS_ID", "first", {}, "JAX_PROCESS_ID must be a whole number"),
        ("JOB_COMPLETION_INDEX", "2", {"process_id": 1}, "process_id must agree with"),
    ],
)
def test_a_variable_that_contradicts_an_argument_is_refused(
    monkeypatch, variable, value, arguments, message
):
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=f"^{message}.*; got ") as caught:
        bb.join_processes(**arguments)
    for name, given in arguments.items():
        assert str(caught.value).endswith(f"{variable}={value}; got {name}={given!r}.")


def test_slurm_contradicts_an_argument_only_inside_a_step(monkeypatch):
    monkeypatch.setenv("SLURM_NTASKS", "4")
    assert _given("a:1", 2, 0) == Place("a:1", 2, 0)
    monkeypatch.setenv("SLURM_STEP_NODELIST", "node[1-4]")
    with pytest.raises(ValueError, match=r"^num_processes must agree with .* SLURM_NTASKS=4"):
        _given("a:1", 2, 0)


def test_slurm_says_everything(monkeypatch):
    for name, value in {
        "SLURM_JOB_ID": "7",
        "SLURM_STEP_NODELIST": "node[001-002]",
        "SLURM_NTASKS": "2",
        "SLURM_PROCID": "1",
        "SLURM_LOCALID": "0",
    }.items():
        monkeypatch.setenv(name, value)
    assert _complete(Place(None, None, None), None, 1.0) == Place("node001:61447", 2, 1, [0])


@pytest.mark.parametrize("variable", ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"])
def test_processes_of_another_mpi_do_not_stay_alone(monkeypatch, variable):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv(variable, "1")
    bb.join_processes()
    monkeypatch.setenv(variable, "2")
    rule = r'^cluster must not be "mpi4py" unless mpi4py is installed; MPI other than '
    with pytest.raises(ValueError, match=rule):
        bb.join_processes()


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"address": "nowhere"}, ValueError, "address must be a host and a port"),
        ({"num_processes": 0}, ValueError, "num_processes must be at least 1"),
        (
            {"num_processes": 2, "process_id": 2},
            ValueError,
            "process_id must be at least 0 and less than num_processes=2; got process_id=2",
        ),
        ({"process_id": -1}, ValueError, "process_id must be at least 0; got process_id=-1"),
        ({"process_id": True}, TypeError, "process_id must be a whole number; got process_id=True"),
        ({"timeout": 0}, ValueError, "timeout must be positive and finite; got timeout=0"),
        ({"arrival_timeout": float("inf")}, ValueError, "arrival_timeout must be positive and fin"),
        (
            {"num_processes": 2},
            ValueError,
            "address must be given if neither a variable nor a cluster provides it; got "
            "address=None. The ",
        ),
        ({"address": "a:1", "process_id": 0}, ValueError, "num_processes must be given if neither"),
        ({"cluster": "mpi4py"}, ValueError, 'cluster must not be "mpi4py" unless mpi4py is inst'),
    ],
)
def test_arguments_are_checked(arguments, kind, message):
    with pytest.raises(kind, match=f"^{message}"):
        bb.join_processes(**arguments)


def test_jax_must_not_have_been_used_before():
    jax.devices()
    flags = os.environ.get("XLA_FLAGS")
    with pytest.raises(RuntimeError, match=r"^join_processes must be called before anything else "):
        bb.join_processes("127.0.0.1:1", 1, 0)
    assert flags == os.environ.get("XLA_FLAGS")


def test_sums_time_out_sooner_than_heartbeats_unless_the_user_says_when(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--a=b")
    _set_timeout(10.0)
    assert os.environ["XLA_FLAGS"] == "--a=b --xla_cpu_collective_timeout_seconds=8"
    _set_timeout(20.0)
    assert os.environ["XLA_FLAGS"] == "--a=b --xla_cpu_collective_timeout_seconds=8"
