"""CPU seconds of `bbalpha evaluate` for many rows, against another source tree.

`python benchmarks/evaluating.py FOLDER`: FOLDER is the root of the other tree. The trees take
turns, each with a model that it has fitted itself to 400 rows, and with its own programs on disk.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

NUM_ROWS, NUM_TRAIN, NUM_COLUMNS = 65_000, 400, 8
TREES = {"this": Path(__file__).parents[1], "other": Path(sys.argv[1]).resolve()}
REPETITIONS = 3
COMMAND = "import sys; from bbalpha.cli import app; app(sys.argv[1:])"


def write_tables(folder, kind):
    random = np.random.default_rng(0)
    x = random.normal(size=(NUM_TRAIN + NUM_ROWS, NUM_COLUMNS))
    signal = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + x[:, 3]
    y = signal + 0.3 * random.normal(size=len(x))
    cells = np.char.mod("%.4f", np.column_stack([x, y]))
    if kind == "classes":
        cells[:, -1] = np.array(["low", "middle", "high"])[np.digitize(y, [-1, 1])]
    for name, rows in ("train", cells[:NUM_TRAIN]), ("test", cells[NUM_TRAIN:]):
        header = [f"x{column}" for column in range(NUM_COLUMNS)] + ["y"]
        lines = [",".join(row) for row in (header, *rows)]
        (folder / f"{name}-{kind}.csv").write_text("\n".join(lines) + "\n")


def cpu_seconds(tree, *command):
    source = TREES[tree] / "src"
    own = {"PYTHONPATH": str(source), "XDG_CACHE_HOME": str(Path.cwd() / tree)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *map(str, command)],
        env=os.environ | own,
        check=True,
        capture_output=True,
        text=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, done.stdout


def measure(kind):
    """Median CPU seconds of both trees, and the log-likelihoods that they print."""
    write_tables(Path.cwd(), kind)
    seconds, printed = {tree: [] for tree in TREES}, {}
    for tree in TREES:
        cpu_seconds(
            tree,
            "fit",
            f"train-{kind}.csv",
            "--target",
            "y",
            "-q",
            "-o",
            f"{tree}-{kind}.safetensors",
        )
        cpu_seconds(tree, "evaluate", f"{tree}-{kind}.safetensors", f"test-{kind}.csv")  # compiles
    for _ in range(REPETITIONS):
        for tree in TREES:
            used, printed[tree] = cpu_seconds(
                tree, "evaluate", f"{tree}-{kind}.safetensors", f"test-{kind}.csv"
            )
            seconds[tree].append(used)
    return {tree: median(found) for tree, found in seconds.items()}, printed


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for kind in ("numbers", "classes"):
            seconds, printed = measure(kind)
            ratio = seconds["this"] / seconds["other"]
            print(f"{kind}: {seconds['this']:.2f} s, other {seconds['other']:.2f} s, {ratio:.2f}")
            print("\n".join(printed.values()))
