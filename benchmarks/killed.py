"""Kill a fit at random moments and compare its result with an undisturbed fit.

    python benchmarks/killed.py --kills 100 --signal KILL
    python benchmarks/killed.py --kills 100 --signal TERM
    python benchmarks/killed.py --cost

Every round starts in an empty folder. The fit is killed at a moment drawn uniformly from its
duration, started again, killed again, and so on, until it ends by itself. `--cost` compares the
processor time of a fit with and without checkpoints, in alternation.
"""

import argparse
import hashlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

NUM_EPOCHS = 3000


def fit(folder=None, num_epochs=NUM_EPOCHS, seconds=0.1):
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
        bb.init_mlp((5, 20, 1), key=jax.random.key(3)),
        bb.Dataset(inputs, targets),
        key=jax.random.key(0),
        hyperparams=bb.Gaussian(),
        num_samples=10,
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


def started(folder):
    command = [sys.executable, __file__, "--fit", folder]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def survive(number, duration, random_moments):
    """Start and kill a fit until it ends; its hash, and how often it was killed."""
    num_kills = 0
    with tempfile.TemporaryDirectory() as folder:
        while True:
            process = started(folder)
            try:
                out, _ = process.communicate(timeout=random_moments.uniform(0, duration))
            except subprocess.TimeoutExpired:
                process.send_signal(number)
                out, _ = process.communicate()
            if process.returncode == 0:
                return out.strip(), num_kills
            if process.returncode != -number:
                raise SystemExit(f"the fit ended with code {process.returncode}: {out}")
            num_kills += 1


def kill(num_kills, number):
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        expected = started(folder).communicate()[0].strip()
    duration = 1.1 * (time.perf_counter() - start)
    random_moments = random.Random(0)
    done, fits = 0, 0
    while done < num_kills:
        found, times = survive(number, duration, random_moments)
        done, fits = done + times, fits + 1
        if found != expected:
            raise SystemExit(f"fit {fits} differs after {times} kills")
        print(f"{fits} fits, {done} kills by {number.name}: all identical", flush=True)


def cost(num_epochs=100_000, repeats=3, seconds=10.0):
    def cpu_time(folder):
        start = time.process_time()
        fit(folder, num_epochs=num_epochs, seconds=seconds)
        return time.process_time() - start

    fit(num_epochs=3)
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
