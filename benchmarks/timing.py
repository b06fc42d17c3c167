"""Timings side by side: candidates take turns, so that a busy machine slows all of them alike."""

import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import jax
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


@dataclass(frozen=True)
class Line:
    """One line of the report: a figure, its reference, and the target."""

    what: str
    value: float
    unit: str
    against: str = ""
    reference: float | None = None
    target: float | None = None
    at_least: bool = False

    @property
    def ratio(self):
        return None if self.reference is None else self.value / self.reference

    @property
    def reached(self):
        if self.target is None:
            return ""
        good = self.ratio >= self.target if self.at_least else self.ratio <= self.target
        return "yes" if good else "**no**"


def seconds(candidates, repetitions=7):
    """The median time of each candidate, a function without arguments, after a first call."""
    for candidate in candidates.values():
        jax.block_until_ready(candidate())
    times = {name: [] for name in candidates}
    for _ in range(repetitions):
        for name, candidate in candidates.items():
            started = time.perf_counter()
            jax.block_until_ready(candidate())
            times[name].append(time.perf_counter() - started)
    return {name: median(of_one) for name, of_one in times.items()}


def run_python(code, *arguments):
    """What a fresh interpreter prints, and how long it took."""
    started = time.perf_counter()
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip(), time.perf_counter() - started


def progress():
    """A bar that names the current measurement, on stderr."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def machine():
    """The processor, its cores and the versions that matter."""
    information = Path("/proc/cpuinfo")  # where there is none the name is the architecture's
    text = information.read_text() if information.exists() else ""
    names = [line.split(":")[1].strip() for line in text.splitlines() if "model name" in line]
    return (
        f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, jax {jax.__version__}"
    )
