"""Kill a fit at random moments and compare its result with an undisturbed fit.

    python benchmarks/killed.py --kills 100 --signal KILL
    python benchmarks/killed.py --kills 100 --signal TERM
    python benchmarks/killed.py --cost

Every round starts in an empty folder. The fit is killed at a moment drawn uniformly from its
processor time, which a busy machine does not change; it is started again, killed again, and so on,
until it ends by itself. Each round adds a line to a file in `results/`; the same command goes on
after the last of them. `--cost` compares the processor time of a fit with and without checkpoints,
in alternation. Linux only, whose /proc tells the processor time of a process.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

NUM_EPOCHS = 5000
LINEAR, NETWORK = (5, 1), (5, 20, 1)  # sizes of layers
RESULTS = Path("results")
TICK = 1 / os.sysconf("SC_CLK_TCK")  # seconds
IS_ENDING = 0x4  # PF_EXITING among the flags of a process in Linux


def fit(folder=None, sizes=LINEAR, num_epochs=NUM_EPOCHS, seconds=0.1):
    import jax
    import jax.numpy as jnp

    import bbalpha as bb

    inputs = jax.random.normal(jax.random.key(1), (200, 5))
    targets = jnp.sin(inputs[:, :1]) + 0.1 * jax.random.normal(jax.random.key(2), (200, 1))

    def log_likelihood(weights, batch, noise):
        return noise.log_prob(bb.mlp(weights, batch.inputs), batch.targets)

    warnings.simplefilter("ignore")
    return bb.fit(
        log_likelihood,
        bb.init_mlp(sizes, key=jax.random.key(3)),
        bb.Dataset(inputs, targets),
        key=jax.random.key(0),
        hyperparams=bb.Gaussian(),
        num_samples=10,
        batch_size=32,
        num_epochs=num_epochs,
        checkpoint=folder and bb.Checkpoint(folder, seconds=seconds),
        progress=False,
    )


def digest_of(posterior):
    """A hash of every number of a posterior and of all energies."""
    import jax
    import numpy as np

    found = hashlib.sha256(repr(posterior.info.energies).encode())
    for leaf in jax.tree.leaves(posterior):
        found.update(np.asarray(leaf).tobytes())
    return found.hexdigest()


def signalled(command, number=None, moment=0.0, **settings):
    """Run a command and send it a signal, if any, after so many seconds of processor time.

    Returns:
        The exit code, negative if a signal has ended the process; standard output and error; and
        whether the process was still running when the signal was sent.
    """
    settings = {"stdout": subprocess.PIPE, "text": True} | settings
    with subprocess.Popen(command, **settings) as process:
        if number is not None:
            while process.poll() is None and processor_time(process.pid) < moment:
                time.sleep(TICK)
            time.sleep(random.uniform(0, 2 * TICK))  # the clock has ticks
        running = number is not None and process.poll() is None and not is_ending(process.pid)
        if running:
            process.send_signal(number)
        out, err = process.communicate()
        return process.returncode, out, err, running


def processor_time(process):
    """The seconds of a running process, or infinity if it has just ended."""
    fields = facts_of(process)
    return (int(fields[11]) + int(fields[12])) * TICK if fields else float("inf")


def is_ending(process):
    """Whether a process has called exit, after which it takes no signals but gives back memory."""
    fields = facts_of(process)
    return not fields or bool(int(fields[6]) & IS_ENDING)


def facts_of(process):
    """What Linux says of a process, from its state on, or nothing if it has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def time_of(command, **settings):
    """The exit code and output of an undisturbed command, and its processor time."""
    before = os.times()
    code, out, _, _ = signalled(command, **settings)
    after = os.times()
    used = sum(after[2:4]) - sum(before[2:4])
    return code, out, used


def command_of(folder):
    return [sys.executable, __file__, "--fit", folder]


def survive(number, duration, random_moments):
    """Start and kill a fit until it ends; its hash, and how often it was killed."""
    num_kills = 0
    with tempfile.TemporaryDirectory() as folder:
        while True:
            moment = random_moments.uniform(0, duration)
            code, out, _, _ = signalled(command_of(folder), number, moment)
            if code == 0:
                return out.strip(), num_kills
            if code != -number:
                raise SystemExit(f"the fit ended with code {code}: {out}")
            num_kills += 1


def kill(num_kills, number):
    with tempfile.TemporaryDirectory() as folder:
        code, expected, duration = time_of(command_of(folder))
    if code != 0:
        raise SystemExit(f"the undisturbed fit ended with code {code}")
    record = Record(f"killed-{number.name}.jsonl")
    while (done := sum(line["kills"] for line in record.lines)) < num_kills:
        found, times = survive(number, 1.1 * duration, random.Random(len(record.lines)))
        record.add(kills=times, hash=found)
        print(f"fit {len(record.lines)}: {done + times} kills by {number.name}", flush=True)
    same = sum(line["hash"] == expected.strip() for line in record.lines)
    print(f"{done} kills by {number.name}; {same} of {len(record.lines)} fits identical")


class Record:
    """Lines of JSON in a file, read at the start and added to."""

    def __init__(self, name):
        RESULTS.mkdir(exist_ok=True)
        self.path = RESULTS / name
        text = self.path.read_text() if self.path.exists() else ""
        self.lines = [json.loads(line) for line in text.splitlines()]

    def add(self, **facts):
        self.lines.append(facts)
        with self.path.open("a") as file:
            file.write(json.dumps(facts) + "\n")


def cost(num_epochs=100_000, repeats=3, seconds=10.0):
    def cpu_time(folder):
        start = time.process_time()
        fit(folder, NETWORK, num_epochs, seconds)
        return time.process_time() - start

    fit(sizes=NETWORK, num_epochs=3)
    ratios = []
    for _ in range(repeats):
        without = cpu_time(None)
        with tempfile.TemporaryDirectory() as folder:
            ratios.append(cpu_time(folder) / without)
        print(f"with checkpoints / without: {ratios[-1]:.3f} ({without:.1f} s)", flush=True)
    print(f"median {statistics.median(ratios):.3f}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--signal", default="KILL", choices=("KILL", "TERM"))
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--fit", metavar="FOLDER", help="fit once and print the hash")
    options = parser.parse_args()
    if options.fit:
        print(digest_of(fit(options.fit)))
    elif options.cost:
        cost()
    else:
        kill(options.kills, signal.Signals[f"SIG{options.signal}"])


if __name__ == "__main__":
    main()
