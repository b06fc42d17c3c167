"""Workers get the threads, the precision and the compiled programs of this process."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from bbalpha.runtime.fingerprints import cores
from bbalpha.runtime.workers import worker_environment

REPLICAS = Path(__file__).parents[2] / "examples" / "replicas.py"


def test_workers_have_the_threads_the_precision_and_the_programs_of_this_process(monkeypatch, x64):
    found = worker_environment()
    assert found["NPROC"] == str(cores())
    assert found["JAX_ENABLE_X64"] == "1"
    assert found["JAX_COMPILATION_CACHE_DIR"] == jax.config.jax_compilation_cache_dir
    assert all(isinstance(value, str) for value in found.values())
    monkeypatch.setenv("NPROC", "3")
    assert worker_environment()["NPROC"] == "3"
    assert worker_environment(num_threads=1)["NPROC"] == "1"


def test_jax_understands_the_environment():
    """A process with it has the same settings as this one."""
    found = worker_environment(num_threads=1)
    names = [name.lower() for name in found if name.startswith("JAX_")]
    code = f"import jax; print(*[getattr(jax.config, name) for name in {names}], sep='\\n')"
    command = [sys.executable, "-c", code]
    printed = subprocess.run(
        command, env=os.environ | found, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert printed == [str(getattr(jax.config, name)) for name in names]


def test_wrong_number_of_threads_is_refused():
    with pytest.raises(ValueError, match="num_threads must be at least 1; got num_threads=0"):
        worker_environment(num_threads=0)


def scores(backend):
    """What the example prints: the bits of all scores."""
    command = [sys.executable, "-W", "ignore", REPLICAS, backend]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def sequential():
    found = scores("sequential")
    assert found.startswith("sweep ")
    assert len(found.split()) == 6
    return found


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["loky", "threading", "dask", "ray"])
def test_scores_of_workers_have_the_bits_of_one_process(backend, sequential):
    if backend in ("dask", "ray"):
        pytest.importorskip({"dask": "distributed"}.get(backend, backend))
    assert scores(backend) == sequential
