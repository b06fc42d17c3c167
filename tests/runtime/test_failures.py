"""Ends: a sentence and an exit code, however a process of several ends."""

import subprocess
import sys

import pytest

from bbalpha.runtime.failures import EXIT_CODE

RUN = """
import ctypes, os, sys, threading, time
from bbalpha.runtime import failures
failures.end_well(0.5 - failures.GRACE)
{code}
"""


@pytest.mark.parametrize(
    ("code", "expected", "words"),
    [
        ("raise failures.ProcessError('2 was lost.')", EXIT_CODE, "Error: 2 was lost.\n"),
        ("raise KeyError('mine')", 1, "KeyError: 'mine'\n"),
        ("print('done', file=sys.stderr)", 0, "done\n"),
        ("os.abort()", EXIT_CODE, "a process was lost or did not arrive.\n"),
        # jax aborts in a thread of its own; the main thread has time to save and leave.
        ("""
threading.Thread(target=ctypes.CDLL(None).abort, daemon=True).start()
assert failures.aborting.wait(10)
failures.leave("Saved.")""", EXIT_CODE, "Saved.\n"),
        # If it does not leave, the abort takes place.
        ("""
threading.Thread(target=ctypes.CDLL(None).abort, daemon=True).start()
time.sleep(30)""", -6, ""),
    ],
)  # fmt: skip
def test_a_process_ends_with_its_sentence_and_code(code, expected, words):
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(code=code)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == expected
    assert done.stderr.endswith(words)
    assert ("Traceback" in done.stderr) == (expected == 1)
