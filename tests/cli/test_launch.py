"""`bbalpha launch`: it spawns, forwards signals and starts again; the processes do the rest."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bbalpha.cli import app
from bbalpha.cli import launch as launching
from bbalpha.cli.launch import Failure


def launch(*arguments, **keywords):
    command = [sys.executable, "-m", "bbalpha", "launch", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **keywords)


def script(code):
    return [
        "--",
        "python",
        "-c",
        f"import os, signal, sys, time\nme = os.environ['JAX_PROCESS_ID']\n{code}",
    ]


def test_processes_are_told_who_they_are_and_share_cores_and_programs(tmp_path):
    names = ["JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "NPROC", "JAX_COMPILATION_CACHE_DIR"]
    code = f"open(sys.argv[1] + me, 'w').write(' '.join(os.environ[each] for each in {names}))"
    environment = {name: text for name, text in os.environ.items() if name != "NPROC"}
    done = launch("--processes", 2, *script(code), f"{tmp_path}/said-", env=environment)
    assert done.returncode == 0, done.stderr
    said = [(tmp_path / f"said-{number}").read_text().split() for number in (0, 1)]
    assert said[0] == said[1]
    address, count, cores, cache = said[0]
    assert address.startswith("127.0.0.1:")
    assert count == "2"
    assert int(cores) == max(1, len(os.sched_getaffinity(0)) // 2)
    assert cache == os.environ["JAX_COMPILATION_CACHE_DIR"]


def test_only_the_first_process_is_heard_until_another_fails():
    done = launch(*script("print('I am', me); print('oh', me, file=sys.stderr)"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "I am 0\n", "oh 0\n")
    done = launch(*script("print('I am', me, flush=True); sys.exit(5 * int(me))"))
    assert (done.returncode, done.stdout) == (5, "I am 0\n")
    assert done.stderr == "[1] I am 1\nError: Process 1 of 2 ended with exit code 5.\n"


def test_all_start_again_after_a_failure(tmp_path):
    code = """
path = sys.argv[1]
with open(path + me, "a") as file: file.write("x")
if me == "1" and len(open(path + me).read()) < 3: os.kill(os.getpid(), signal.SIGKILL)
"""
    done = launch("--restarts", 3, *script(code), f"{tmp_path}/turns-")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "Process 1 of 2 was ended by SIGKILL; all start again, restart 1 of 3.",
        "Process 1 of 2 was ended by SIGKILL; all start again, restart 2 of 3.",
    ]
    assert [(tmp_path / f"turns-{each}").read_text() for each in (0, 1)] == ["xxx", "xxx"]


def test_after_the_last_restart_the_code_is_that_of_the_first_failure():
    done = launch("--restarts", 1, *script("os.kill(os.getpid(), signal.SIGKILL)"))
    assert done.returncode == 128 + signal.SIGKILL
    assert done.stderr.endswith("Error: Process 0 of 2 was ended by SIGKILL.\n")


def test_a_mistake_is_not_made_again(tmp_path):
    command = ["--restarts", 3, "--", "fit", "missing.csv", "--target", "y"]
    done = launch(*command, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert "start again" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_process_that_lost_another_is_not_the_one_that_failed(tmp_path):
    """It may end before the one that makes the mistake, which is not made again."""
    done = launch("--restarts", 3, *script("time.sleep(int(me)); sys.exit([75, 2][int(me)])"))
    assert done.returncode == 2
    assert "start again" not in done.stderr


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """Runs `launch` with fits that leave a checkpoint and end with these codes."""
    monkeypatch.chdir(tmp_path)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def run(codes):
        commands, codes = [], iter(codes)

        def attempt(job):
            commands.append(job.command)
            folder = Path(job.command[-1])
            folder.mkdir(exist_ok=True)
            (folder / "step-1").touch()
            code = next(codes)
            return Failure(0, code) if code else None

        monkeypatch.setattr(launching.Job, "attempt", attempt)
        command = ["launch", "--restarts", "1", "--", "fit", "houses.csv", "--target", "price"]
        return CliRunner().invoke(app, command), commands

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


def test_checkpoints_are_kept_until_the_same_command_succeeds(kept, tmp_path):
    failed, commands = kept([-signal.SIGKILL, 75])
    assert failed.exit_code == 75
    assert commands[0] == commands[1]
    (folder,) = tmp_path.iterdir()
    said = failed.stderr.splitlines()[-1]
    assert said == f"The same command goes on from {folder.name}."
    succeeded, again = kept([0])
    assert succeeded.exit_code == 0
    assert again == commands[:1]
    assert not list(tmp_path.iterdir())


def test_a_signal_while_processes_are_started_reaches_all_of_them(monkeypatch):
    job = launching.Job(["sleep", "60"], 2)

    class Popen(subprocess.Popen):
        def __init__(self, *arguments, **keywords):
            super().__init__(*arguments, **keywords)
            if keywords["env"]["JAX_PROCESS_ID"] == "0":
                job.note(signal.SIGTERM, None)

    monkeypatch.setattr(subprocess, "Popen", Popen)
    begun = time.monotonic()
    job.attempt()
    assert [each.returncode for each in job.running] == [-signal.SIGTERM] * 2
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_every_process_once(tmp_path, number):
    code = """
def note(*_):
    open(sys.argv[1] + me, "a").write("x")
signal.signal(signal.SIGINT, note); signal.signal(signal.SIGTERM, note)
open(sys.argv[1] + "ready" + me, "w").close()
for _ in range(300):
    time.sleep(0.1)
    if os.path.exists(sys.argv[1] + me): time.sleep(0.5); sys.exit(7)
"""
    # A shell in the background lets its commands ignore SIGINT.
    begin = "signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", f"import os, signal, sys; {begin}"]
    command += [sys.executable, "-m", "bbalpha", "launch", *script(code), f"{tmp_path}/"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("ready*"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert [(tmp_path / each).read_text() for each in "01"] == ["x", "x"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--", "predict", "a", "b"], "launch runs fit or a script; got predict."),
        (["--", "no-such-program"], "launch must be given a command that exists; got no-such-prog"),
        (
            ["--processes", "0", "--", "fit"],
            "--processes must be a whole number from 1 to 1024;",
        ),
        (
            ["--restarts", "-1", "--", "fit"],
            "--restarts must be a whole number from 0 to 1000000",
        ),
    ],
)
def test_bad_input_is_refused(arguments, message):
    done = launch(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"Error: {message}")
