"""A process that ends without the others, or keeps them waiting for long: no other hangs."""

import re

import pytest
from problems import jobs

MODEL = """
import sys, time
import bbalpha as bb
bb.join_processes(timeout={timeout})
import jax, jax.numpy as jnp, numpy as np
from bbalpha.files import model_file
from bbalpha.runtime.sources import ArrayRows
me, folder = jax.process_index(), sys.argv[1]

def log_likelihood(weights, rows):
    return bb.log_ndtr(rows[:, -1] * (rows[:, :-1] @ weights))

class Rows(ArrayRows):
    def read(self, block):
        return super().read(block)

def fit(data=None, **settings):
    data = Rows(np.load(folder + "/rows.npy"), block_rows=4) if data is None else data
    settings = {{"num_epochs": 5, "batch_size": 8}} | settings
    return bb.fit(
        log_likelihood, jnp.zeros(3), data, key=jax.random.key(1), num_samples=8, optimizer="adam",
        progress=False, **settings,
    )
"""
WAYS = {
    # One process refuses something before the fit that the other has begun.
    "refusal": ("if me == 1: sys.exit(3)\nfit()", (75, 3)),
    # A callback, which only process 0 calls, ends the program, although the fit has begun.
    "callback": ("fit(callback=lambda state, info: sys.exit(3))", (3, 75)),
    # A block that only one process reads is broken; its program goes on to another fit.
    "caught": (
        """
def read(self, block):
    if me == 1 and block > 0: raise OSError("the disk is gone")
    return ArrayRows.read(self, block)
Rows.read = read
try:
    fit()
except bb.SourceError:
    try:
        fit(np.load(folder + "/rows.npy"))
    except bb.ProcessError as error:
        print(error)
        sys.exit(4)
""",
        (75, 4),
    ),
}


SLOW = [pytest.param(way, marks=pytest.mark.slow) for way in ("refusal", "caught")]


@pytest.mark.parametrize("way", ["callback", *SLOW])
def test_no_process_waits_for_one_that_has_left(folder, way):
    code, expected = WAYS[way]
    processes = jobs.start(MODEL.format(timeout=100) + code, 2, folder)
    ends = jobs.ends(processes, 60)
    assert tuple(code for code, *_ in ends) == expected, ends
    (number,) = (number for number, code in enumerate(expected) if code != 75)
    _, output, _ = ends[number]
    *_, last = ends[1 - number][2].strip().splitlines()
    assert re.match(rf"Error: Process {number} of 2 (left the fit|did not answer)\.", last)
    if way == "caught":
        assert output.startswith("This process has left the others, because an earlier fit ended ")


@pytest.mark.slow
def test_a_slow_disk_does_not_end_the_fit(folder, tmp_path):
    """Reading a block and writing a checkpoint both take longer than a sum over processes may."""
    code = """
write, written = model_file.write, []
def slowly(*arguments):
    written.append(arguments)
    if len(written) == 2:  # after the first steps
        time.sleep(10)
    write(*arguments)
model_file.write = slowly
def read(self, block):
    if me == 1 and block > 0 and not waited:
        waited.append(block)
        time.sleep(10)
    return ArrayRows.read(self, block)
waited, Rows.read = [], read
posterior = fit(checkpoint=bb.Checkpoint(sys.argv[2], seconds=0))
print(posterior.info.stopped)
"""
    limit = {"XLA_FLAGS": "--xla_cpu_collective_timeout_seconds=4"}
    processes = jobs.start(MODEL.format(timeout=100) + code, 2, folder, tmp_path, **limit)
    for code, output, errors in jobs.ends(processes, 200):
        assert code == 0, errors
        assert output == "finished\n"
