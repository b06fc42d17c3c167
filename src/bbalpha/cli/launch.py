"""`bbalpha launch`: run one command as several processes on this machine; restart them on failure.

This module starts the processes, forwards signals and waits. The processes do everything else.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from types import FrameType
from typing import IO, Annotated, NamedTuple

import typer

from bbalpha.cli.doors import EXIT_CODE, Refusal
from bbalpha.cli.options import whole_number
from bbalpha.cli.printing import note

GRACE = 20.0  # seconds that the other processes have to end after one has failed
PAUSE = 0.05  # seconds between two checks of the processes
LAST_LINES = 20  # of output shown for a failed process other than the first
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
            "continue from their last checkpoint; fit keeps its checkpoint in a temporary folder "
            "unless --checkpoint names another.",
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
    with ExitStack() as stack:
        job = Job(_whole_command(command, restarts, stack), processes)
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                signal.signal(number, job.forward)
        code = _run(job, restarts)
    raise typer.Exit(code)


class Job:
    """The processes of one command."""

    def __init__(self, command: list[str], num_processes: int):
        self.command = command
        self.num_processes = num_processes
        self.running: list[subprocess.Popen] = []
        self.forwarded: int | None = None  # the signal

    def forward(self, number: int, frame: FrameType | None) -> None:
        """Pass a signal on to all processes."""
        self.forwarded = number
        self.send(number)

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
            if failure and failure.process and self.forwarded is None:
                _show_end(logs[failure.process], failure.process)
        return failure

    def _wait(self) -> Failure | None:
        """Wait for the end; after a failure, the other processes have some time to save and end."""
        failure, deadline = None, None
        while any(process.poll() is None for process in self.running):
            if deadline is not None and time.monotonic() > deadline:
                return failure
            time.sleep(PAUSE)
            failure = failure or self._failure()
            if failure and deadline is None:
                deadline = time.monotonic() + GRACE
        return failure or self._failure()

    def _failure(self) -> Failure | None:
        """The process that failed; a killed one comes first, because others fail because of it."""
        codes = [(process.poll() or 0, number) for number, process in enumerate(self.running)]
        failed = [Failure(number, code) for code, number in sorted(codes) if code]
        return failed[0] if failed else None


def _run(job: Job, restarts: int) -> int:
    """Run the command, with restarts if it needs them; return its exit code."""
    for restart in range(restarts + 1):
        failure = job.attempt()
        if failure is None:
            return 0
        if job.forwarded is not None:
            return FIRST_CODE + job.forwarded
        code = failure.code if failure.code > 0 else FIRST_CODE - failure.code
        if code == EXIT_CODE:  # a user's mistake, which a restart would repeat
            return code
        end = f"Process {failure.process} of {job.num_processes} {_in_words(failure.code)}"
        if restart == restarts:
            note(f"Error: {end}.")
            return code
        note(f"{end}; all start again, restart {restart + 1} of {restarts}.")
    return 0


def _whole_command(command: list[str], restarts: int, stack: ExitStack) -> list[str]:
    """The full command line to run, for a command of bbalpha or any other program."""
    from bbalpha.cli import app

    own = {each.name for each in app.registered_commands}
    if command[0] in own:
        if command[0] != "fit":
            raise Refusal(f"launch runs fit or a script; got {command[0]}.")
        has_folder = any(each.startswith("--checkpoint") for each in command)
        if restarts and not has_folder:
            folder = tempfile.mkdtemp(prefix="bbalpha-launch-")
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            command = [*command, "--checkpoint", folder]
        return [sys.executable, "-m", "bbalpha", *command]
    if command[0] == "python":
        return [sys.executable, *command[1:]]
    found = shutil.which(command[0])
    if found is None:
        raise Refusal(f"launch must be given a command that exists; got {command[0]}.")
    return [found, *command[1:]]


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
