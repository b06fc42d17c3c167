"""Facts about `bbalpha compare`: the model of a table, its rows, and what is refused."""

import json
import re
import subprocess
import sys

import numpy as np
import pandas
import pytest
import scipy.optimize
import scipy.stats

import bbalpha as bb
from bbalpha.cli import compare
from bbalpha.cli.linear_model import LinearModel
from bbalpha.cli.training_table import intake, read_training_table
from bbalpha.message_passing import comparing

QUICK = ("--methods", "power_ep", "--alphas", "1")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Numbers, counts, classes and a text."""
    random = np.random.default_rng(0)
    first, second = random.normal(10, 2, 40), random.normal(size=40)
    signal = 0.5 * (first - 10) - second
    frame = pandas.DataFrame(
        {
            "first": first,
            "second": second,
            "number": 100 + 5 * signal + random.normal(0, 3, 40),
            "count": random.poisson(np.exp(0.5 + 0.3 * signal)),
            "class": np.where(signal + random.normal(size=40) > 0, "yes", "no"),
            "kind": random.choice(["a", "b", "c"], 40),
        }
    )
    path = tmp_path_factory.mktemp("compare") / "table.csv"
    frame.to_csv(path, index=False)
    return path


def columns_but(target):
    others = {"number", "count", "class", "kind"} - {target}
    return [word for name in sorted(others) for word in ("--drop", name)]


@pytest.fixture(scope="module")
def numbers(table, done):
    picture = table.with_name("numbers.png")
    options = (*QUICK, *columns_but("number"), "--plot", picture, "--json")
    result = done("compare", table, "--target", "number", *options)
    assert result.stderr == ""
    assert picture.read_bytes().startswith(b"\x89PNG")
    return json.loads(result.stdout)


def test_ep_is_exact_for_numbers(numbers):
    (row,) = numbers["methods"]
    assert (row["method"], row["alpha"], row["converged"]) == ("power_ep", 1.0, True)
    assert row["largest_mean_error"] < 1e-6
    assert row["largest_deviation_ratio"] == pytest.approx(1, abs=1e-6)
    assert numbers["reference"]["method"] == "exact"
    assert (numbers["rows"], numbers["held_out_rows"]) == (32, 8)
    assert numbers["parameters"] == ["(intercept)", "first", "second"]


def test_evidence_and_scores_are_those_of_the_model_in_the_units_of_the_target(numbers, table):
    frame = pandas.read_csv(table)
    is_new = np.zeros(40, bool)
    is_new[np.random.default_rng(0).permutation(40)[:8]] = True
    old, new = frame[~is_new], frame[is_new]
    center, scale = (getattr(old[["first", "second"]], name)(axis=0) for name in ("mean", "std"))
    scale *= np.sqrt(31 / 32)  # pandas divides by n − 1

    def design(rows):
        return np.column_stack([np.ones(len(rows)), (rows[["first", "second"]] - center) / scale])

    x, y = design(old), old["number"].to_numpy()
    variance = np.var(y)

    def log_evidence(noise):
        covariance = variance * x @ x.T + noise * np.eye(32)
        return scipy.stats.multivariate_normal.logpdf(y, np.full(32, y.mean()), covariance)

    noise = numbers["noise_deviation"] ** 2
    assert numbers["reference"]["log_evidence"] == pytest.approx(log_evidence(noise), abs=1e-6)
    best = scipy.optimize.minimize_scalar(lambda u: -log_evidence(np.exp(u)), bracket=(0, 4))
    assert noise == pytest.approx(np.exp(best.x), rel=1e-4)
    precision = np.eye(3) / variance + x.T @ x / noise
    covariance = np.linalg.inv(precision)
    mean = covariance @ (x.T @ (y - y.mean())) / noise
    rows = design(new)
    spread = np.sqrt(noise + np.diag(rows @ covariance @ rows.T))
    scores = scipy.stats.norm.logpdf(new["number"], y.mean() + rows @ mean, spread)
    assert numbers["methods"][0]["held_out"] == pytest.approx(scores.mean(), abs=1e-6)


def test_the_table_is_printed(table, done):
    options = (*QUICK, *columns_but("number"), "--held-out", "0")
    lines = done("compare", table, "--target", "number", *options).stdout.splitlines()
    assert lines[0].endswith("table.csv: 40 rows to fit, 0 held out")
    assert lines[3].startswith("model   linear, gaussian noise, standard deviation ")
    assert lines[5].split() == [
        *("method", "α", "mean", "error", "deviations", "log", "evidence", "held", "out"),
        "seconds",
    ]
    assert [line.split()[0] for line in lines[6:8]] == ["exact", "power_ep"]
    assert lines[7].split()[5] == "–"  # nothing was held out
    assert max(map(len, lines[5:])) <= 80


@pytest.mark.parametrize(("target", "likelihood"), [("class", "probit"), ("count", "poisson")])
def test_classes_and_counts_have_likelihoods_of_their_own(table, done, target, likelihood):
    options = ("--likelihood", likelihood, *QUICK, *columns_but(target), "--reference", "none")
    result = done("compare", table, "--target", target, *options, "--json")
    found = json.loads(result.stdout)
    (row,) = found["methods"]
    assert (found["likelihood"], found["reference"]["method"]) == (likelihood, "none")
    assert row["mean"][1] > 0 > row["mean"][2]  # as the table was made
    assert row["held_out"] < 0


def test_logit_is_the_bernoulli_likelihood(table):
    columns = intake("class", None, None, ["kind"], None, None, None, False)
    model = LinearModel.of(read_training_table(table, columns), "logit", 2.0)
    assert isinstance(model._likelihood, bb.Bernoulli)
    assert (model.level, model.scale) == (0.0, 2.0)


def test_the_options_name_the_methods_of_the_library():
    assert sorted(compare.METHODS) == sorted(comparing.FUNCTIONS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "kind"], "target 'kind' must be a number or have two classes for compare; "
         "got 3 classes: 'a', 'b' and 'c'."),
        (["--target", "number", "--methods", "ep"],
         f"--methods must be among {', '.join(compare.METHODS)}; got 'ep'."),
        (["--target", "number", "--alphas", "1,x"],
         "--alphas must be finite numbers, separated by commas; got '1,x'."),
        (["--target", "number", "--held-out", "1"],
         "--held-out must be from 0 to less than 1; got 1."),
        (["--target", "number", "--held-out", "0.99"],
         "--held-out must leave some rows to fit; got 0.99 of 40 rows."),
        (["--target", "number", "--seed", 10**30],
         "--seed must be a whole number from 0 to 4294967295; got '1000"),
        (["--target", "number", "--prior-scale", "1e300"],
         "--prior-scale must be less than 1e+15; got '1e300'."),
        (["--target", "number", "--likelihood", "probit"],
         "--likelihood must be one of gaussian, poisson for a regression; got 'probit'."),
        (["--target", "number", "--likelihood", "poisson"],
         "target 'number' must hold counts for --likelihood poisson; got "),
        (["--target", "number", "--reference", "exact"],
         "--reference must be auto, nuts, importance or none; got 'exact'."),
        (["--target", "number", "--plot", "a.gif"], "--plot must end in .png, .pdf or .svg; got "),
        (["--target", "number", "--methods", "averaged_ep", "--alphas", "32"],
         "methods must not all fail; averaged_ep, α = 32: alpha must be less than the number of "
         "data points, because all share one site; got alpha=32.0 with 32 data points."),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused(table, refused, options, message):
    assert refused(table.parent, "compare", table, *options, *_drops(options)).startswith(message)


def _drops(options):
    return columns_but(options[1]) if options[1] != "kind" else []


def test_a_picture_does_not_replace_the_table(table, refused):
    path = table.with_name("table.png")
    path.write_bytes(table.read_bytes())
    message = refused(path.parent, "compare", path, "--target", "number", "--plot", path)
    assert message.startswith("--plot must not be another file of the command; got ")


def test_rows_to_fit_must_differ(tmp_path, written, refused):
    path = written(tmp_path, "x,y\n1,a\n2,a\n3,a\n4,a\n5,b\n")
    seeds = [seed for seed in range(50) if np.random.default_rng(seed).permutation(5)[0] == 4]
    message = refused(tmp_path, "compare", path, "--target", "y", "--seed", seeds[0])
    assert message == (
        "target 'y' must differ between the rows that are not held out; got 'a' in all of them."
    )


@pytest.mark.parametrize("size", [155, -155])
def test_a_target_whose_squares_are_no_numbers_is_refused(tmp_path, written, refused, size):
    path = written(tmp_path, "x,y\n" + "".join(f"{x},{x % 3}.5e{size}\n" for x in range(9)))
    message = refused(tmp_path, "compare", path, "--target", "y", "--held-out", 0)
    assert re.fullmatch(
        r"target 'y' must have a standard deviation between 1e-100 and 1e\+100 for compare; got "
        rf"8\.16e\{size - 1:+}\. Change its unit\.",
        message,
    )


def test_refusals_wait_for_no_heavy_library(table):
    code = f"""
import sys
from bbalpha.cli import app
try:
    app(["compare", {str(table)!r}, "--target", "number", "--methods", "ep"])
except SystemExit as end:
    assert end.code == 2
assert not {{"jax", "matplotlib", "pandas", "pyarrow", "scipy", "sklearn"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
