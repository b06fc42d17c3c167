"""A progress bar on a terminal, silence elsewhere, and Ctrl-C."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest
from problems.limited_regression import fit


def test_progress_is_silent_without_a_terminal(capfd):
    fit(progress=True)
    assert capfd.readouterr() == ("", "")


LONG_FIT = """
import json, math, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if pytest runs in the background
import jax, jax.numpy as jnp
import bbalpha as bb

def log_likelihood(weights, batch):
    inputs, targets = batch
    return jax.scipy.stats.norm.logpdf(targets, inputs @ weights)

inputs = jax.random.normal(jax.random.key(0), (7, 2))
posterior = bb.fit(
    log_likelihood, jnp.zeros(2), (inputs, inputs[:, 0]), key=jax.random.key(1),
    batch_size=3, num_samples=5, num_epochs=5_000_000,
)
print(json.dumps({
    "stopped": posterior.info.stopped,
    "num_steps": posterior.info.num_steps,
    "num_energies": len(posterior.info.energies),
    "finite": bool(jnp.isfinite(posterior.mean).all() & jnp.isfinite(posterior.variance).all()),
    "energy_is_known": not math.isnan(posterior.energy),
}))
"""
BAR = r"epoch +([1-9]\d*)/5000000 [^\r]* energy (-?[\d.]+) +\d+:\d\d:\d\d"


@pytest.fixture(scope="module")
def interrupted_fit():
    """What a fit without end showed on a terminal before SIGINT, and what it printed after."""
    terminal, end_of_process = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100", "JAX_PLATFORMS": "cpu"}
    process = subprocess.Popen(
        [sys.executable, "-c", LONG_FIT],
        stdout=subprocess.PIPE,
        stderr=end_of_process,
        env=environment,
        text=True,
    )
    os.close(end_of_process)
    try:
        shown = read_until(terminal, BAR, seconds=120)
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=180)
    finally:
        process.kill()
        os.close(terminal)
    return shown, printed


def read_until(terminal, pattern, seconds):
    """The text of the terminal, without colors, up to a match."""
    shown, deadline = "", time.monotonic() + seconds
    while not re.search(pattern, shown):
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing like {pattern} within {seconds} seconds of {shown!r}"
        text = os.read(terminal, 4096).decode(errors="replace")
        shown += re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", text)
    return shown


def test_a_terminal_shows_epoch_energy_and_time_left(interrupted_fit):
    shown, _ = interrupted_fit
    epoch, energy = re.search(BAR, shown).groups()
    assert int(epoch) < 5_000_000
    assert float(energy) > 0.0


def test_ctrl_c_returns_the_posterior_reached(interrupted_fit):
    _, printed = interrupted_fit
    found = json.loads(printed)
    assert found["stopped"] == "interrupted"
    assert found["num_steps"] > 0
    assert found["num_energies"] == found["num_steps"] // 3
    assert found["finite"]
    assert not found["energy_is_known"]
