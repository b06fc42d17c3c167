"""Rows from Parquet against rows in memory: peak memory, and the time of the same steps.

    python benchmarks/larger_than_memory.py /tmp/rows --rows 10000000

Writes files of half a million rows of 50 columns and a target, in single precision with checksums,
into the folder, unless they are there from an earlier call. Then it fits a network 50-100-1 for one
pass over them in a process of its own, whose peak memory it prints, and takes turns between steps
on the files and steps on the first of their rows in memory. Delete the folder afterwards.
"""

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np

import bbalpha as bb
from bbalpha.engine.arrays import on_device
from bbalpha.engine.loop import start_at
from bbalpha.planning import prepare_anywhere, runner_of, steps_for

NUM_COLUMNS, FILE_ROWS, GROUP_ROWS = 50, 500_000, 50_000
BATCH_SIZE, NUM_SAMPLES = 1024, 10
NUM_ROUNDS = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rows-in-memory", type=int, default=500_000)
    parser.add_argument("--steps", type=int, default=200, help="of a turn")
    parser.add_argument("--batch-size", type=int, default=BATCH_SIZE)
    parser.add_argument("--part", choices=["fit", "turns"])
    options = parser.parse_args()
    if options.part == "fit":
        fit(options)
    elif options.part == "turns":
        take_turns(options)
    else:
        write_files(options.folder, options.rows)
        for part in ("fit", "turns"):
            subprocess.run([sys.executable, *sys.argv, "--part", part], check=True)


def write_files(folder, num_rows):
    """The files that are not there yet, each written under another name first."""
    import pyarrow
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    weights = np.random.default_rng(0).normal(size=(NUM_COLUMNS, 5)).astype(np.float32)
    for number, start in enumerate(range(0, num_rows, FILE_ROWS)):
        path = folder / f"part-{number:04d}.parquet"
        if path.exists():
            continue
        random = np.random.default_rng([1, number])
        shape = (min(FILE_ROWS, num_rows - start), NUM_COLUMNS)
        inputs = random.standard_normal(shape, np.float32)
        targets = np.tanh(inputs @ weights / 7).sum(axis=1)
        targets += 0.3 * random.standard_normal(shape[0], np.float32)
        columns = {f"x{column}": inputs[:, column] for column in range(NUM_COLUMNS)}
        table = pyarrow.table(columns | {"y": targets})
        unfinished = path.with_suffix(".unfinished")
        parquet.write_table(
            table,
            unfinished,
            row_group_size=GROUP_ROWS,
            use_dictionary=False,
            write_page_checksum=True,
        )
        unfinished.rename(path)


def model():
    sizes = (NUM_COLUMNS, 100, 1)

    def log_likelihood(params, batch):
        return bb.Gaussian(np.log(0.3)).log_prob(bb.mlp(params, batch.inputs), batch.targets)

    return log_likelihood, bb.init_mlp(sizes, key=jax.random.key(1))


def fit(options):
    log_likelihood, params = model()
    files = sorted(options.folder.glob("*.parquet"))
    rows = bb.ParquetRows(options.folder, targets="y")
    posterior = bb.fit(
        log_likelihood,
        params,
        rows,
        key=jax.random.key(0),
        optimizer="adam",
        num_epochs=1,
        batch_size=options.batch_size,
        num_samples=NUM_SAMPLES,
        progress=False,
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    size = sum(file.stat().st_size for file in files) / 2**30
    print(
        f"{rows.num_rows:,} rows, {size:.2f} GiB of files, {posterior.info.num_steps:,} steps: "
        f"{posterior.info.seconds:.0f} s, peak memory {peak:.2f} GiB, "
        f"energy {float(posterior.energy) / rows.num_rows:.4f} nats per row",
        flush=True,
    )


def take_turns(options):
    """Steps on files and in memory, taking turns; the ratio of their rows per second."""
    log_likelihood, params = model()
    source = bb.ParquetRows(options.folder, targets="y")
    in_memory = first_rows(source, options.rows_in_memory)
    runs = {}
    for name, data in {"files": source, "memory": in_memory}.items():
        rows, plan, _ = prepare_anywhere(data, None, "adam", options.batch_size, 10_000)
        state = bb.init(
            log_likelihood,
            params,
            num_data=float(rows.total_weight()),
            key=jax.random.key(0),
            num_samples=NUM_SAMPLES,
        )
        run = runner_of(steps_for(plan, "adam", params, NUM_SAMPLES), rows, plan)
        runs[name] = [run, state, start_at(state, rows, plan).order]
    seconds = {name: [] for name in runs}
    for turn in range(NUM_ROUNDS + 1):
        for name, (run, state, order) in runs.items():
            begin = time.process_time(), time.perf_counter()
            state, order, *_ = jax.block_until_ready(
                run(state, order=order, num_steps=on_device(options.steps))
            )
            end = time.process_time(), time.perf_counter()
            runs[name] = [run, state, order]
            if turn:  # the first compiles
                seconds[name].append(np.subtract(end, begin))
    per_step = {
        name: 1e3 * np.mean(found, axis=0) / options.steps for name, found in seconds.items()
    }
    for name, (cpu, wall) in per_step.items():
        print(
            f"{name}: {cpu:.2f} ms of CPU and {wall:.2f} ms per step of {options.batch_size} rows"
        )
    cpu, wall = per_step["memory"] / per_step["files"]
    print(f"throughput of files / memory: {cpu:.2f} by CPU, {wall:.2f} by wall clock", flush=True)


def first_rows(source, num_rows):
    found, count = [], 0
    for block in range(len(source.block_rows)):
        found.append(source.read(block))
        count += source.block_rows[block]
        if count >= num_rows:
            break
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:num_rows], *found)


if __name__ == "__main__":
    main()
