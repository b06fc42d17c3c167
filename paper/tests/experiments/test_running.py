"""Experiments are run, killed and continued; every run of the plan becomes one row."""

import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from bbalpha_paper.experiments.plan import (
    SCALES,
    Configuration,
    Experiment,
    Narrowing,
    planned,
)
from bbalpha_paper.experiments.running import reproduce
from bbalpha_paper.rows import append_rows, read_file, read_folder

PLAN = Configuration(
    name="main",
    datasets=("red", "blue"),
    alphas=(1.0, 0.5, 0.0),
    num_splits=4,
    num_seeds=2,
    settings={"num_epochs": 7},
    together=6,
)
NUM_RUNS = 2 * 3 * 4 * 2


def score(run):
    return {"score": run.split + 10 * run.seed + 100 * run.alpha + run.settings["num_epochs"]}


def experiment(measure=lambda runs, bench: [score(run) for run in runs], plan=PLAN):
    return Experiment(
        name="paint",
        configurations=dict.fromkeys(SCALES, (plan,)),
        measure=measure,
    )


def run(folder, wanted=Narrowing(), scale="quick", paint=None):  # noqa: B008  a tuple
    paint = paint or experiment()
    (configurations,) = planned([paint], scale, wanted)
    return reproduce(paint, configurations, folder)


def without_times(folder):
    return [replace(row, seconds=0.0) for row in read_folder(folder)]


def test_every_run_of_the_plan_becomes_one_row(tmp_path):
    assert run(tmp_path) == NUM_RUNS
    rows = read_folder(tmp_path)
    identities = {(row.dataset, row.split, row.seed, row.alpha) for row in rows}
    assert len(rows) == len(identities) == NUM_RUNS
    for row in rows:
        assert row.metrics == score(row)
        assert row.settings == {"scale": "quick", "num_epochs": 7}
        assert (row.experiment, row.configuration) == ("paint", "main")


def test_runs_are_counted_as_they_are_added(tmp_path):
    assert run(tmp_path, Narrowing(alphas=(0.0,))) == NUM_RUNS // 3
    assert run(tmp_path) == NUM_RUNS * 2 // 3


def test_rows_in_the_folder_are_not_run_again(tmp_path):
    run(tmp_path, Narrowing(datasets=("red",), num_splits=2))
    before = read_folder(tmp_path)
    assert run(tmp_path) == NUM_RUNS - len(before)
    assert [row for row in read_folder(tmp_path) if row in before] == before
    assert run(tmp_path) == 0


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        (Narrowing(datasets=("blue",)), NUM_RUNS // 2),
        (Narrowing(alphas=(0.0, 1.0)), NUM_RUNS * 2 // 3),
        (Narrowing(num_splits=1), NUM_RUNS // 4),
        (Narrowing(num_seeds=1), NUM_RUNS // 2),
        (Narrowing(("red",), (0.5,), 1, 1), 1),
    ],
)
def test_a_narrowed_plan_is_a_part_of_the_whole(tmp_path, wanted, count):
    run(tmp_path / "part", wanted)
    run(tmp_path / "whole")
    part, whole = without_times(tmp_path / "part"), without_times(tmp_path / "whole")
    assert len(part) == count
    assert all(row in whole for row in part)


def test_runs_of_one_data_set_are_trained_together(tmp_path):
    groups = []

    def measure(runs, bench):
        groups.append(runs)
        return [score(run) for run in runs]

    run(tmp_path, paint=experiment(measure))
    assert [len(group) for group in groups] == [6] * 8
    assert all(len({run.dataset for run in group}) == 1 for group in groups)


def test_a_group_of_which_a_row_is_lost_is_measured_whole_and_written_in_part(tmp_path):
    run(tmp_path)
    whole = without_times(tmp_path)
    file = tmp_path / "paint" / "red.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:3]) + lines[3][:50])
    groups = []

    def measure(runs, bench):
        groups.append(len(runs))
        return [score(run) for run in runs]

    run(tmp_path, paint=experiment(measure))
    assert groups[0] == 6
    assert without_times(tmp_path) == whole


def test_an_incomplete_last_row_is_run_again(tmp_path):
    run(tmp_path)
    whole = without_times(tmp_path)
    file = tmp_path / "paint" / "blue.jsonl"
    file.write_bytes(file.read_bytes()[:-2])
    assert run(tmp_path) == 1
    assert without_times(tmp_path) == whole


def test_a_damaged_row_in_the_middle_is_reported(tmp_path):
    run(tmp_path)
    file = tmp_path / "paint" / "blue.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(["{oops\n", *lines]))
    with pytest.raises(ValueError, match=r"line 1 of .*blue\.jsonl must be a row in JSON, .*; got"):
        run(tmp_path)
    file.write_text('{"experiment": "paint"}\n')
    with pytest.raises(ValueError, match=r"must have the fields experiment, .*got 'experiment'\."):
        run(tmp_path)


def test_rows_with_other_settings_are_not_mixed(tmp_path):
    run(tmp_path)
    with pytest.raises(ValueError, match=r"got num_epochs 7 in .*\.jsonl, and 9 now\. Choose"):
        run(tmp_path, Narrowing(num_epochs=9))
    with pytest.raises(ValueError, match=r"got scale 'quick' in .*, and 'paper' now"):
        run(tmp_path, scale="paper")
    more = replace(PLAN, settings={"num_epochs": 7, "width": 3})
    with pytest.raises(ValueError, match=r"got width None in .*, and 3 now"):
        run(tmp_path, paint=experiment(plan=more))


def test_another_scale_is_not_mixed_even_on_other_data(tmp_path):
    run(tmp_path, Narrowing(datasets=("red",)))
    with pytest.raises(ValueError, match=r"got scale 'quick' in .*, and 'smoke' now"):
        run(tmp_path, Narrowing(datasets=("blue",)), scale="smoke")


def test_data_sets_of_one_experiment_may_have_other_settings(tmp_path):
    run(tmp_path, Narrowing(datasets=("red",)))
    run(tmp_path, Narrowing(datasets=("blue",), num_epochs=9))
    assert {row.settings["num_epochs"] for row in read_folder(tmp_path)} == {7, 9}


def test_rows_of_another_version_are_not_mixed(tmp_path):
    run(tmp_path, Narrowing(datasets=("red",)))
    file = tmp_path / "paint" / "red.jsonl"
    rows = [replace(row, version="0.0.1") for row in read_file(file)]
    file.unlink()
    append_rows(file, rows)
    with pytest.raises(ValueError, match=r"got version '0\.0\.1' in .*red\.jsonl, and '"):
        run(tmp_path, Narrowing(datasets=("blue",)))


KILLED = """
import sys, time
from pathlib import Path
from bbalpha_paper.experiments.plan import Configuration, Experiment, Narrowing, planned
from bbalpha_paper.experiments.running import reproduce

def measure(runs, bench):
    time.sleep(float(sys.argv[2]))
    return [{"score": run.split + 100 * run.alpha} for run in runs]

plan = Configuration(name="main", datasets=("red", "blue"), alphas=(1.0, 0.0), num_splits=60)
paint = Experiment(name="paint", configurations={"quick": (plan,)}, measure=measure)
reproduce(paint, *planned([paint], "quick", Narrowing()), Path(sys.argv[1]))
"""


def test_killed_ten_times_it_gives_the_same_rows(tmp_path):
    """SIGKILL at random moments while rows are written, each time after some more of them."""
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    moments = random.Random(0)
    for _ in range(10):
        before = size_of(killed)
        process = subprocess.Popen(killable(killed, seconds_per_run=0.02))
        while size_of(killed) == before:
            assert process.poll() is None
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.1))
        assert process.poll() is None  # still at work
        process.send_signal(signal.SIGKILL)
        process.wait()
    for folder in (killed, undisturbed):
        subprocess.run(killable(folder, seconds_per_run=0.0), check=True)
    assert len(read_folder(undisturbed)) == 240
    assert without_times(killed) == without_times(undisturbed)


def killable(folder, seconds_per_run):
    return [sys.executable, "-c", KILLED, folder, str(seconds_per_run)]


def size_of(folder):
    return sum(file.stat().st_size for file in folder.glob("*/*"))
