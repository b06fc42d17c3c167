"""Reading: CPU seconds from a CSV file like nycflights (336,776 × 19) to the matrix of features.

    python benchmarks/flights.py --against ../other/src

Every run is a process of its own, this version and the other in turn; the smallest time of each is
printed, in user mode and in all, with the peak of memory. The matrices must be equal.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas

NUM_ROWS, NUM_RUNS = 336_776, 3
HERE = Path(__file__).parents[1] / "src"
CARRIERS = ("UA", "B6", "EV", "DL", "AA", "MQ", "US", "9E", "WN", "VX", "FL", "AS", "F9", "YV")
CODE = """
import hashlib, json, os, resource, sys
from bbalpha.tables import TableEncoder, drop_columns, read_table
before = os.times()
table = read_table(sys.argv[1])
targets = table.column("sched_arr_time").to_numpy().astype(float)
features = TableEncoder().fit_transform(drop_columns(table, ["sched_arr_time"]), targets)
after = os.times()
print(json.dumps({
    "user": after.user - before.user,
    "all": after.user + after.system - before.user - before.system,
    "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    "features": hashlib.sha256(features.tobytes()).hexdigest(),
}))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, nargs="*", default=[], help="folders of sources")
    parser.add_argument("--rows", type=int, default=NUM_ROWS)
    args = parser.parse_args()
    sources = [HERE, *args.against]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "flights.csv")
        flights(args.rows).to_csv(path, index=False)
        runs = [[measured(source, path) for source in sources] for _ in range(NUM_RUNS)]
    assert len({run["features"] for turn in runs for run in turn}) == 1, "the features differ"
    for source, found in zip(sources, zip(*runs, strict=True), strict=True):
        least = {name: min(run[name] for run in found) for name in ("user", "all", "megabytes")}
        print(
            f"{source}: {least['user']:.2f} s in user mode, {least['all']:.2f} s in all, "
            f"{least['megabytes']:.0f} MB"
        )


def measured(source, path):
    command = [sys.executable, "-c", CODE, path]
    settings = {"env": os.environ | {"PYTHONPATH": str(source)}, "capture_output": True}
    return json.loads(subprocess.run(command, check=True, **settings).stdout)


def flights(num_rows, seed=0):
    """Numbers, some of them missing, texts with few and with thousands of categories, and times."""
    rng = np.random.default_rng(seed)
    minutes = 5 * np.sort(rng.integers(0, 365 * 24 * 12, num_rows))
    start = pandas.DatetimeIndex(np.datetime64("2013-01-01T05:00") + minutes.astype("m8[m]"))
    tails = np.array(
        [f"N{number}{rng.choice(CARRIERS)}" for number in rng.integers(100, 1000, 4043)]
    )
    airports = np.array(
        ["".join(rng.choice(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), 3)) for _ in range(105)]
    )
    place = (105 * rng.random(num_rows) ** 2).astype(int)
    distance = rng.integers(80, 4983, 105)[place]
    delay = (rng.standard_gamma(0.4, num_rows) * 40 - 8).round()
    flown = (distance / 8 + rng.normal(20, 8, num_rows)).round()
    left, landed, due = (
        start + pandas.to_timedelta(number, unit="m")
        for number in (delay, delay + flown, flown + 10)
    )
    is_missing = rng.random(num_rows) < 0.025

    def clock(times):
        return times.hour * 100 + times.minute

    def with_gaps(values):
        return pandas.Series(np.where(is_missing, np.nan, values)).astype("Int64")

    return pandas.DataFrame(
        {
            "year": start.year,
            "month": start.month,
            "day": start.day,
            "dep_time": with_gaps(clock(left)),
            "sched_dep_time": clock(start),
            "dep_delay": with_gaps(delay),
            "arr_time": with_gaps(clock(landed)),
            "sched_arr_time": clock(due),
            "arr_delay": with_gaps((delay + rng.normal(-5, 15, num_rows)).round()),
            "carrier": rng.choice(CARRIERS, num_rows, p=_falling(len(CARRIERS))),
            "flight": rng.integers(1, 6200, num_rows),
            "tailnum": np.where(
                rng.random(num_rows) < 0.0075,
                None,
                tails[(len(tails) * rng.random(num_rows) ** 2).astype(int)],
            ),
            "origin": rng.choice(["EWR", "JFK", "LGA"], num_rows),
            "dest": airports[place],
            "air_time": with_gaps(flown),
            "distance": distance,
            "hour": start.hour,
            "minute": start.minute,
            "time_hour": start.floor("h").strftime("%Y-%m-%d %H:%M:%S"),
        }
    )


def _falling(num):
    weights = 0.7 ** np.arange(num)
    return weights / weights.sum()


if __name__ == "__main__":
    main()
