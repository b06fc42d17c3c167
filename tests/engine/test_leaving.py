"""Programs that leave at a signal, with its exit code, one sentence and no files half-written."""

import signal
import subprocess
import sys

import pytest

SIGNALS = [(signal.SIGINT, 130, "Interrupted"), (signal.SIGTERM, 143, "Terminated")]


def ended(code, *args):
    """The exit code and standard error of a program that has handlers as in a terminal."""
    handlers = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    command = [sys.executable, "-c", handlers + code, *map(str, args)]
    result = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    return result.returncode, result.stderr


@pytest.mark.parametrize(("number", "code", "verb"), SIGNALS)
def test_a_signal_ends_the_process_with_its_code_and_a_sentence(tmp_path, number, code, verb):
    program = """
import sys
from bbalpha.engine.leaving import leave_at_signals, say_when_leaving
from bbalpha.files import replacing
leave_at_signals()
say_when_leaving("; no α was written.")
with replacing(sys.argv[1]) as temporary:
    temporary.write_text("half of")
    signal.raise_signal(int(sys.argv[2]))
"""
    found = ended(program, tmp_path / "result.txt", int(number))
    assert found == (code, f"{verb}; no α was written.\n")
    assert list(tmp_path.iterdir()) == []


def test_an_ignored_signal_stays_ignored():
    program = """
from bbalpha.engine.leaving import finish, leave_at_signals
signal.signal(signal.SIGINT, signal.SIG_IGN)
leave_at_signals()
signal.raise_signal(signal.SIGINT)
finish()
signal.raise_signal(signal.SIGINT)
"""
    assert ended(program) == (0, "")


@pytest.mark.parametrize(("number", "code", "verb"), SIGNALS)
def test_at_the_end_signals_belong_to_the_system(number, code, verb):
    program = """
import sys
from bbalpha.engine.leaving import finish, leave_at_signals
leave_at_signals()
finish()
signal.raise_signal(int(sys.argv[1]))
"""
    assert ended(program, int(number)) == (-number, "")


@pytest.mark.parametrize(("number", "code", "verb"), SIGNALS)
@pytest.mark.parametrize(
    ("module", "rest"), [("typer.core", "."), ("pyarrow.lib", "; no model was written.")]
)
def test_a_signal_amid_an_import_of_the_command_is_no_traceback(
    tmp_path, number, code, verb, module, rest
):
    program = """
import sys
from bbalpha.__main__ import main

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == module:
            signal.raise_signal(number)

number, module = int(sys.argv.pop(1)), sys.argv.pop(1)
sys.meta_path.insert(0, Interrupting())
main()
"""
    table = tmp_path / "table.csv"
    table.write_text("x,y\n1,2\n")
    options = ["--target", "y", "--output", tmp_path / "m.safetensors"]
    found = ended(program, int(number), module, "fit", table, *options)
    assert found == (code, f"{verb}{rest}\n")
    assert list(tmp_path.iterdir()) == [table]
