"""Experiments are planned, narrowed, run, killed and continued; rows are written once and whole."""

import json
import math
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.metadata import version

import jax
import jax.numpy as jnp
import pytest
from typer.testing import CliRunner

import bbalpha as bb
from bbalpha.cli import app
from bbalpha_paper.experiments import NAMES, find_experiment
from bbalpha_paper.experiments.fits import check_ended, unless_lost
from bbalpha_paper.experiments.plan import (
    SCALES,
    Bench,
    Configuration,
    Experiment,
    Narrowing,
    planned,
)
from bbalpha_paper.experiments.problems import load_problem
from bbalpha_paper.experiments.running import reproduce
from bbalpha_paper.report.rows import append_rows, read_file, read_folder

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


def test_what_is_in_the_folder_is_not_run_again(tmp_path):
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


@pytest.mark.parametrize("kept", [1, 60, -2])
def test_a_truncated_last_row_is_dropped_and_run_again(tmp_path, kept):
    run(tmp_path)
    whole = without_times(tmp_path)
    file = tmp_path / "paint" / "blue.jsonl"
    *lines, last = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines) + last[:kept])
    assert len(read_file(file)) == len(lines)
    run(tmp_path)
    assert without_times(tmp_path) == whole


def test_a_damaged_row_in_the_middle_is_told(tmp_path):
    run(tmp_path)
    file = tmp_path / "paint" / "blue.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(["{oops\n", *lines]))
    with pytest.raises(ValueError, match=r"line 1 of .*blue\.jsonl must be a row in JSON; got"):
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


def test_a_number_that_is_not_finite_is_written_as_null(tmp_path):
    def measure(runs, bench):
        return [{"score": float("nan"), "curve": [1.0, float("inf")]} for _ in runs]

    run(tmp_path, paint=experiment(measure))
    assert read_folder(tmp_path)[0].metrics == {"score": None, "curve": [1.0, None]}


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Narrowing(datasets=("green",)), "--data must be among red, blue for paint at the scale"),
        (Narrowing(alphas=(0.3,)), r"--alphas must be among 1, 0\.5, 0 for paint .*; got 0\.3\."),
        (Narrowing(num_splits=5), "--splits must be from 1 to 4, as many as paint .*; got 5"),
        (Narrowing(num_splits=0), "--splits must be from 1 to 4, as many as paint .*; got 0"),
        (Narrowing(num_seeds=3), "--seeds must be from 1 to 2, as many as paint .*; got 3"),
        (Narrowing(num_epochs=0), "--epochs must be at least 1; got 0"),
    ],
)
def test_what_the_plan_has_not_is_refused(wanted, message):
    with pytest.raises(ValueError, match=message):
        planned([experiment()], "quick", wanted)


def test_several_experiments_are_narrowed_together():
    """What is wanted must be in one of them; the others give what they have."""
    large = experiment(plan=replace(PLAN, datasets=("green",), num_splits=9))
    small = experiment()
    first, second = planned([small, large], "quick", Narrowing(num_splits=6))
    assert (first[0].num_splits, second[0].num_splits) == (4, 6)
    first, second = planned([small, large], "quick", Narrowing(datasets=("green",)))
    assert (len(first), len(second)) == (0, 1)
    with pytest.raises(ValueError, match="--data must be among red, blue, green for paint, paint"):
        planned([small, large], "quick", Narrowing(datasets=("pink",)))


def test_some_data_sets_are_run_only_when_named():
    plan = replace(PLAN, datasets=("huge",), by_name=True)
    both = replace(experiment(), configurations={"quick": (PLAN, plan)})
    for wanted, datasets in (
        (Narrowing(), [("red", "blue")]),
        (Narrowing(datasets=("huge",)), [("huge",)]),
        (Narrowing(datasets=("huge", "red")), [("red",), ("huge",)]),
    ):
        (configurations,) = planned([both], "quick", wanted)
        assert [each.datasets for each in configurations] == datasets


def test_an_unknown_scale_or_name_is_refused():
    with pytest.raises(ValueError, match="--scale must be one of smoke, quick, paper; got 'huge'"):
        planned([experiment()], "huge", Narrowing())
    with pytest.raises(ValueError, match=r"the experiment must be one of .*probit.*; got 'probid'"):
        find_experiment("probid")


def test_epochs_are_refused_where_there_are_none():
    with pytest.raises(ValueError, match="--epochs must not be given for paint"):
        planned([experiment(plan=replace(PLAN, settings={}))], "quick", Narrowing(num_epochs=3))


KILLED = """
import sys, time
from pathlib import Path
from bbalpha_paper.experiments.plan import Configuration, Experiment, Narrowing, planned
from bbalpha_paper.experiments.running import reproduce

def measure(runs, bench):
    time.sleep(0.02)
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
        process = subprocess.Popen([sys.executable, "-c", KILLED, killed])
        while size_of(killed) == before:
            assert process.poll() is None
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.2))
        assert process.poll() is None  # still at work
        process.send_signal(signal.SIGKILL)
        process.wait()
    for folder in (killed, undisturbed):
        subprocess.run([sys.executable, "-c", KILLED, folder], check=True)
    assert len(read_folder(undisturbed)) == 240
    assert without_times(killed) == without_times(undisturbed)


def size_of(folder):
    return sum(file.stat().st_size for file in folder.glob("*/*"))


@pytest.mark.parametrize("name", NAMES)
def test_settings_are_json_and_every_scale_has_runs(name):
    found = find_experiment(name)
    assert found.name == name
    for scale in SCALES:
        (configurations,) = planned([found], scale, Narrowing())
        for configuration in configurations:
            assert list(configuration.groups())
            settings = configuration.settings
            assert json.loads(json.dumps(settings)) == settings


def test_vb_is_alpha_zero_in_every_comparison():
    for name in ("probit", "regression", "mnist", "clean-energy", "gradient"):
        for configuration in find_experiment(name).configurations["paper"]:
            assert 0.0 in configuration.alphas


def test_a_long_fit_goes_on_from_its_checkpoint_to_the_same_result(tmp_path, monkeypatch):
    from bbalpha_paper.experiments import long_fit
    from bbalpha_paper.experiments.mnist import EXPERIMENT

    wanted = Narrowing(alphas=(0.5,), num_epochs=3)
    ((configuration,),) = planned([EXPERIMENT], "smoke", wanted)
    ((run,),) = configuration.groups()
    bench = Bench(tmp_path / "checkpoint", lambda part: None)
    (undisturbed,) = EXPERIMENT.measure([run], bench)
    bench.checkpoint.unlink()

    class Killed(Exception):
        pass

    def killing(part):
        if part > 0.5:
            raise Killed

    with pytest.raises(Killed):
        EXPERIMENT.measure([run], Bench(bench.checkpoint, killing))
    epochs = []
    run_steps = long_fit.run_steps
    monkeypatch.setattr(
        long_fit, "run_steps", lambda state, *args: epochs.append(1) or run_steps(state, *args)
    )
    (continued,) = EXPERIMENT.measure([run], bench)
    assert len(epochs) == 1  # of three
    assert continued == undisturbed
    assert bench.earlier > 0.0
    other = replace(run, seed=1)
    EXPERIMENT.measure([other], bench)  # the checkpoint is another run's, and is not used
    assert len(epochs) == 4
    bench.checkpoint.write_bytes(b"[]\n")  # of another form
    assert EXPERIMENT.measure([run], bench) == [undisturbed]
    assert len(epochs) == 7


def ended(how):
    """A posterior whose fit ended so."""
    state = bb.init(lambda mean, batch: batch, jnp.zeros(()), num_data=1, key=jax.random.key(0))
    return replace(state.posterior(), info=bb.FitInfo(stopped=how))


def test_an_interrupted_fit_makes_no_row():
    check_ended([ended("finished"), ended("non-finite")])
    with pytest.raises(KeyboardInterrupt):
        check_ended([ended("finished"), ended("interrupted")])


def test_a_fit_whose_energy_was_lost_has_no_scores():
    assert unless_lost(ended("finished"), {"rmse": 2.0}) == {"rmse": 2.0}
    assert math.isnan(unless_lost(ended("non-finite"), {"rmse": 2.0})["rmse"])


def command(*args):
    return CliRunner().invoke(app, ["reproduce", *map(str, args)], catch_exceptions=False)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["probid"], "NAME must be divergence, .* or all; got 'probid'"),
        (["probit", "--scale", "huge"], "--scale must be one of smoke, quick, paper; got 'huge'"),
        (["probit", "--alphas", "one"], "--alphas must be numbers, .*; got --alphas 'one'"),
        (
            ["probit", "--alphas", "0.3"],
            r"--alphas must be among 1, 0\.5, .* for probit at .* 0\.3",
        ),
        (["probit", "--data", "boston"], "--data must be among ionosphere, .*; got boston"),
        (["probit", "--data", "pima,"], "--data must be among ionosphere, .*; got nothing"),
        (
            ["all", "--scale", "smoke", "--data", "cubic", "--alphas", "1e-6"],
            "--data and --alphas must leave some run of divergence, .* smoke; got none",
        ),
        (["probit", "--splits", "11"], "--splits must be from 1 to 10, .*; got 11"),
        (["mnist", "--seeds", "0"], "--seeds must be from 1 to 1, .*; got 0"),
        (["divergence", "--epochs", "3"], "--epochs must not be given for divergence"),
        (["probit", "--epochs", "0"], "--epochs must be at least 1; got 0"),
    ],
)
def test_the_command_refuses_what_there_is_not(tmp_path, args, message):
    result = command(*args, "--output", tmp_path / "results")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert re.search(message, line)
    assert list(tmp_path.iterdir()) == []


def test_missing_data_are_told_before_anything_is_run(tmp_path, monkeypatch):
    monkeypatch.setenv("BBALPHA_DATA", str(tmp_path))
    load_problem.cache_clear()
    result = command("probit", "--output", tmp_path / "results")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert "folder must hold ionosphere/ionosphere.csv.gz" in line
    assert "The canonical download is https://archive.ics.uci.edu" in line
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_is_a_file_is_refused(tmp_path):
    file = tmp_path / "results"
    file.write_text("mine")
    result = command("linear", "--scale", "smoke", "--output", file)
    assert result.exit_code == 2
    assert "--output must be a folder" in result.stderr
    assert file.read_text() == "mine"
    result = command("linear", "--scale", "smoke", "--output", file / "below")
    assert result.exit_code == 2
    assert "--output must be a folder that can be written to" in result.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"version": "0.0.1"}, "got version '0.0.1' in "),
        ({"settings": {"scale": "paper"}}, "got scale 'paper' in "),
        ({"alpha": "none"}, "line 1 of "),
    ],
)
def test_a_folder_of_other_rows_is_refused_before_anything_is_run(tmp_path, line, message):
    row = {
        "experiment": "toy",
        "configuration": "main",
        "dataset": "cubic",
        "split": 0,
        "seed": 0,
        "alpha": 1.0,
        "settings": {"scale": "smoke"},
        "metrics": {},
        "seconds": 1.0,
        "version": version("bbalpha"),
    }
    file = tmp_path / "toy" / "cubic.jsonl"
    file.parent.mkdir()
    file.write_text(json.dumps(row | line) + "\n")
    result = command("all", "--scale", "smoke", "--output", tmp_path)
    assert result.exit_code == 2
    (sentence,) = result.stderr.splitlines()
    assert message in sentence
    assert [path.name for path in tmp_path.iterdir()] == ["toy"]


def test_rows_that_cannot_be_written_are_told_in_a_sentence(tmp_path):
    (tmp_path / "linear").write_text("in the way")
    result = command("linear", "--scale", "smoke", "--output", tmp_path)
    assert result.exit_code == 2
    assert "example-1.jsonl must be a file that can be written; got: " in result.stderr


def test_who_interrupts_it_learns_how_it_goes_on(tmp_path, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("bbalpha_paper.experiments.running.reproduce", interrupted)
    result = command("linear", "--scale", "smoke", "--output", tmp_path)
    assert result.exit_code == 130
    assert result.stderr.startswith("Stopped. The same command goes on from here.")
