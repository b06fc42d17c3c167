"""The place of a process: which variables say that it is one of several."""

import subprocess
import sys

import pytest

from bbalpha.runtime import places

ALONE = [{}, {"SLURM_STEP_NODELIST": "a", "SLURM_NTASKS": "1"}, {"OMPI_COMM_WORLD_SIZE": "1"}]
TOGETHER = [
    {"JAX_COORDINATOR_ADDRESS": "10.0.0.1:1234"},
    {"SLURM_STEP_NODELIST": "a[1-2]", "SLURM_NTASKS": "2"},
    {"OMPI_COMM_WORLD_SIZE": "2"},
    {"PMI_SIZE": "2"},
    {"JOB_COMPLETION_INDEX": "0"},
]


@pytest.mark.parametrize("variables", [*ALONE, {"SLURM_NTASKS": "2"}, *TOGETHER])
def test_a_launcher_of_several_processes_is_recognized(monkeypatch, variables):
    for name in (*places.OURS.values(), *places.CLUSTERS):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert places.is_one_of_several() == (variables in TOGETHER)


def test_the_environment_is_read_without_jax():
    code = "import sys, bbalpha.runtime.places; sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
