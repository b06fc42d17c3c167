"""Press Ctrl-C at random moments of `bbalpha fit`, from its start to its end, and count exit codes.

    python benchmarks/interrupted.py --runs 200
    python benchmarks/interrupted.py --runs 200 --signal TERM

Moments are drawn uniformly from the processor time of the command; programs are compiled anew each
time. Every run must end with the code of its signal, 130 or 143, without a traceback of bbalpha,
without temporary files, and with a whole model file or none. A signal that comes before the first
line of bbalpha is answered by Python itself: with a traceback and an end by the signal (shells show
the same code) or, in the milliseconds before Python is ready, with a fatal error and code 1. A run
that has ended before its signal is not counted. Each run adds a line to a file in `results/`; the
same command goes on after the last of them.
"""

import argparse
import collections
import os
import random
import signal
import sys
import tempfile
from pathlib import Path

from killed import Record, signalled, time_of

from bbalpha.files import model_file

OPTIONS = ("--target", "y", "--hidden", "5", "--epochs", "2000", "--output", "model.safetensors")
COMMAND = (sys.executable, "-m", "bbalpha", "fit", "table.csv", *OPTIONS)
OF_PYTHON = ("Traceback", "Fatal Python error: init_")  # at its start


def settings_of(folder):
    """Of a process in the folder, which has a table and no compiled programs."""
    write_table(folder / "table.csv")
    return {"cwd": folder, "env": os.environ | {"BBALPHA_CACHE_DIR": ""}, "stderr": -1}


def run(number, moment):
    """The exit code as shells show it, the stage, and whether the signal reached the command."""
    with tempfile.TemporaryDirectory() as name:
        settings = settings_of(Path(name))
        code, out, err, reached = signalled(COMMAND, number, moment, **settings)
        check(Path(name), code, out + err)
    return (code if code >= 0 else 128 - code), stage(err), reached


def write_table(path, num_rows=60):
    numbers = random.Random(1)
    rows = [[numbers.gauss(0, 1) for _ in range(3)] for _ in range(num_rows)]
    lines = [f"{a},{b},{c},{a - b + 0.1 * c}" for a, b, c in rows]
    path.write_text("\n".join(["a,b,c,y", *lines, ""]))


def check(folder, code, said):
    """Raise if there is a traceback, half a model or a temporary file."""
    is_own = "bbalpha/" in said.partition("Traceback")[2].replace("bbalpha/__init__", "")
    if is_own and code >= 0:
        raise SystemExit(f"code {code}, with a traceback:\n{said}")
    names = {path.name for path in folder.iterdir()} - {"table.csv"}
    if "model.safetensors" in names:
        model_file.read(folder / "model.safetensors")
    if names - {"model.safetensors"}:
        raise SystemExit(f"code {code}, with {names} left:\n{said}")


def stage(err):
    """The sentence in which the command said how far it had come, without its numbers."""
    if any(words in err for words in OF_PYTHON):
        return "before the first line of bbalpha"
    last = err.strip().splitlines()[-1] if err.strip() else "nothing said"
    return "".join(letter for letter in last if not letter.isdigit() and letter != ",")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--signal", default="INT", choices=("INT", "TERM"))
    options = parser.parse_args()
    number = signal.Signals[f"SIG{options.signal}"]
    # Shells let commands in the background ignore Ctrl-C, and their children with them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as name:
        code, _, duration = time_of(COMMAND, **settings_of(Path(name)))
    if code != 0:
        raise SystemExit(f"the undisturbed command ended with code {code}")
    record = Record(f"interrupted-{number.name}.jsonl")
    while (done := sum(line["reached"] for line in record.lines)) < options.runs:
        moment = random.Random(len(record.lines)).uniform(0, duration)
        code, words, reached = run(number, moment)
        record.add(moment=moment, code=code, stage=words, reached=reached)
        print(f"{done + reached} runs: {moment:.2f} s, code {code}, {words}", flush=True)
    counts = collections.Counter(
        (line["stage"], line["code"]) for line in record.lines if line["reached"]
    )
    for (words, code), times in sorted(counts.items()):
        print(f"{times:4d} times code {code}: {words}")


if __name__ == "__main__":
    main()
