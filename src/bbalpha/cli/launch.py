"""`bbalpha launch`: run one command as several processes on this machine; restart them on failure.

This module starts the processes, forwards signals and waits. The processes do everything else.
"""

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Annotated, NamedTuple

import typer

from bbalpha.cli.doors import EXIT_CODE, Refusal
from bbalpha.cli.options import whole_number
from bbalpha.cli.printing import note

GRACE = 20.0  # seconds that the other processes have to end after one has failed
PAUSE = 0.05  # seconds between two checks of the processes
LAST_LINES = 20  # of output shown for a failed process other than the first
LOST = 75  # exit code of a process that has lost another, as in `runtime.failures`
FIRST_CODE = 128  # plus the number of a signal, as in shells
MOST_PROCESSES, MOST_RESTARTS = 1024, 10**6


class Failure(NamedTuple):
    """The number of the process that failed first, and its exit code (negative for a signal)."""

    process: int
    code: int


def launch_processes(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND ...",
            help='The command fit, such as "fit houses.csv --target price", or a program of your '
            'own, such as "python train.py".',
        ),
    ],
    processes: Annotated[
        int,
        typer.Option(
            metavar="NUMBER",
            parser=whole_number("--processes", 1, MOST_PROCESSES),
            help="Number of processes that share the work.",
        ),
    ] = 2,
    restarts: Annotated[
        int,
        typer.Option(
            metavar="NUMBER",
            parser=whole_number("--restarts", 0, MOST_RESTARTS),
            help="How many times to restart all processes after one has failed. They "
            "continue from their last checkpoint. Unless --checkpoint names a folder, fit keeps it "
            "in one in the current folder, from which the same command goes on after a failure.",
        ),
    ] = 0,
) -> None:
    """Run a command as several processes on this machine that fit one model together.

    The rows of every batch are split between the processes. Only the output of the first process
    is shown. A Python script must call bbalpha.join_processes() at its start.

    \b
    bbalpha launch --processes 4 --restarts 3 -- fit houses.csv --target price
    bbalpha launch --processes 2 -- python train.py
    """  # noqa: D301
    whole, folder = _whole_command(command, restarts)
    job = Job(whole, processes)
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) not in (signal.SIG_IGN, None):
            signal.signal(number, job.note)
    code = _run(job, restarts)
    if folder is not None:
        _put_away(folder, code)
    raise typer.Exit(code)


class Job:
    """The processes of one command."""

    def __init__(self, command: list[str], num_processes: int):
        self.command = command
        self.num_processes = num_processes
        self.running: list[subprocess.Popen] = []
        self.signals: list[int] = []  # that have arrived
        self.num_sent = 0  # of these signals

    def note(self, number: int, frame: FrameType | None) -> None:
        """Note a signal, which all processes get as soon as they have been started."""
        self.signals.append(number)

    def send(self, number: int) -> None:
        """Send a signal to all processes that are still running."""
        for process in self.running:
            with suppress(ProcessLookupError):
                process.send_signal(number)

    def attempt(self) -> Failure | None:
        """Start all processes and wait until they end; return the first failure, if any."""
        with ExitStack() as stack:
            logs = [
                stack.enter_context(tempfile.TemporaryFile()) for _ in range(self.num_processes)
            ]
            environment = _environment(self.num_processes)
            # Sessions of their own, so that Ctrl-C reaches them only once, through this process.
            self.running = [
                subprocess.Popen(
                    self.command,
                    env=environment | {"JAX_PROCESS_ID": str(number)},
                    stdout=log if number else None,
                    stderr=log if number else None,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
                for number, log in enumerate(logs)
            ]
            try:
                failure = self._wait()
            finally:
                self.send(signal.SIGKILL)
                for process in self.running:
                    process.wait()
            if failure and failure.process and not self.signals:
                _show_end(logs[failure.process], failure.process)
        return failure

    def _wait(self) -> Failure | None:
        """Wait for the end; after a failure, the other processes have some time to save and end."""
        failure, deadline = None, None
        while any(process.poll() is None for process in self.running):
            for number in self.signals[self.num_sent :]:
                self.num_sent += 1
                self.send(number)
            if deadline is not None and time.monotonic() > deadline:
                return failure
            time.sleep(PAUSE)
            failure = failure or self._failure()
            if failure and deadline is None:
                deadline = time.monotonic() + GRACE
        return self._failure() if failure is None or failure.code == LOST else failure

    def _failure(self) -> Failure | None:
        """The process that failed: a killed one comes first, one that has lost another last."""
        codes = [(process.poll() or 0, number) for number, process in enumerate(self.running)]
        failed = [Failure(number, code) for code, number in codes if code]
        return min(failed, key=lambda each: (each.code == LOST, each.code), default=None)


def _run(job: Job, restarts: int) -> int:
    """Run the command, with restarts if it needs them; return its exit code."""
    for restart in range(restarts + 1):
        failure = job.attempt()
        if failure is None:
            return 0
        if job.signals:
            return FIRST_CODE + job.signals[-1]
        code = failure.code if failure.code > 0 else FIRST_CODE - failure.code
        if code == EXIT_CODE:  # a user's mistake, which a restart would repeat
            return code
        end = f"Process {failure.process} of {job.num_processes} {_in_words(failure.code)}"
        if restart == restarts:
            note(f"Error: {end}.")
            return code
        note(f"{end}; all start again, restart {restart + 1} of {restarts}.")
    return 0


def _whole_command(command: list[str], restarts: int) -> tuple[list[str], Path | None]:
    """The full command line to run, and the folder of its checkpoints if the user named none."""
    from bbalpha.cli import app

    own = {each.name for each in app.registered_commands}
    if command[0] in own:
        if command[0] != "fit":
            raise Refusal(f"launch runs fit or a script; got {command[0]}.")
        folder, options = None, []
        if restarts and not any(each.startswith("--checkpoint") for each in command):
            # The same for the same command, which thus finds it again.
            hashed = hashlib.sha256("\0".join(command).encode(errors="surrogateescape"))
            folder = Path(f"bbalpha-launch-{hashed.hexdigest()[:12]}")
            options = ["--checkpoint", str(folder)]
        return [sys.executable, "-m", "bbalpha", *command, *options], folder
    if command[0] == "python":
        return [sys.executable, *command[1:]], None
    found = shutil.which(command[0])
    if found is None:
        raise Refusal(f"launch must be given a command that exists; got {command[0]}.")
    return [found, *command[1:]], None


def _put_away(folder: Path, code: int) -> None:
    """Remove the checkpoints of a command that has succeeded; otherwise say where they are."""
    if code == 0:
        shutil.rmtree(folder, ignore_errors=True)
    elif not any(folder.glob("*")):
        with suppress(OSError):
            folder.rmdir()
    elif code != EXIT_CODE:  # a refusal has its own sentence
        note(f"The same command goes on from {folder}.")


def _environment(num_processes: int) -> dict[str, str]:
    """Environment variables that let the processes find each other and share cores and cache."""
    from bbalpha.engine.cache import use_compilation_cache
    from bbalpha.runtime.fingerprints import cores

    folder = use_compilation_cache()
    defaults = {"NPROC": str(max(1, cores() // num_processes))}
    if folder:
        defaults["JAX_COMPILATION_CACHE_DIR"] = str(folder)
        defaults["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.05"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return (
        defaults
        | dict(os.environ)
        | {
            "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
            "JAX_NUM_PROCESSES": str(num_processes),
        }
    )


def _in_words(code: int) -> str:
    if code > 0:
        return f"ended with exit code {code}"
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


def _show_end(log: IO[bytes], process: int) -> None:
    """Show the last lines of a process whose output was kept."""
    log.seek(0)
    for line in log.read().decode(errors="backslashreplace").splitlines()[-LAST_LINES:]:
        note(f"[{process}] {line}")
