"""Plans are narrowed down, and refuse to be narrowed to something they do not have."""

import json
from dataclasses import replace

import pytest

from bbalpha_paper.experiments import NAMES, find_experiment
from bbalpha_paper.experiments.plan import (
    SCALES,
    Configuration,
    Experiment,
    Narrowing,
    planned,
)

PLAN = Configuration(
    name="main",
    datasets=("red", "blue"),
    alphas=(1.0, 0.5, 0.0),
    num_splits=4,
    num_seeds=2,
    settings={"num_epochs": 7},
)


def experiment(plan=PLAN):
    configurations = dict.fromkeys(SCALES, (plan,))
    return Experiment(name="paint", configurations=configurations, measure=lambda runs, bench: [])


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Narrowing(datasets=("green",)), "--data must be among red, blue for paint at the scale"),
        (Narrowing(alphas=(0.3,)), r"--alphas must be among 1, 0\.5, 0 for paint .*; got 0\.3\."),
        (Narrowing(num_splits=5), "--splits must be from 1 to 4 for paint .*; got 5"),
        (Narrowing(num_splits=0), "--splits must be from 1 to 4 for paint .*; got 0"),
        (Narrowing(num_seeds=3), "--seeds must be from 1 to 2 for paint .*; got 3"),
        (Narrowing(num_epochs=0), "--epochs must be at least 1; got 0"),
    ],
)
def test_a_part_that_the_plan_does_not_have_is_refused(wanted, message):
    with pytest.raises(ValueError, match=message):
        planned([experiment()], "quick", wanted)


def test_several_experiments_are_narrowed_together():
    """One of them must have the part asked for; the others contribute whatever they have."""
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
    with pytest.raises(ValueError, match=r"name must be one of .*probit.*; got name='probid'"):
        find_experiment("probid")


def test_epochs_are_refused_where_there_are_none():
    with pytest.raises(ValueError, match="--epochs must not be given for paint"):
        planned([experiment(plan=replace(PLAN, settings={}))], "quick", Narrowing(num_epochs=3))


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
