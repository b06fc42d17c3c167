"""Facts about `bbalpha explore`: the page, what is printed, and what is refused."""

import json
import re

import pytest

import bbalpha as bb
from bbalpha.explorer import exploring
from bbalpha.explorer.page import is_page


@pytest.fixture
def options(tmp_path):
    """A quick page of the prices."""
    path = tmp_path / "page.html"
    return ["--target", "price", "--hidden", "none", "--epochs", "3", "--output", path]


@pytest.fixture
def only_own(monkeypatch):
    """The page compares no other α."""
    monkeypatch.setattr(exploring, "ALPHAS", ())


def test_explore_writes_a_page_with_the_names_of_the_rows(folder, tmp_path, done, options):
    result = done("explore", folder / "prices.csv", *options, "--id", "id", "--json")
    facts, text = json.loads(result.stdout), (tmp_path / "page.html").read_text()
    assert is_page(tmp_path / "page.html")
    assert '"id":["house 0","house 1"' in text
    assert [each["alpha"] for each in facts["alphas"]] == [-1, 0, 0.25, 0.5, 1]
    assert (facts["chosen"], facts["rows"], facts["target"]) == (0.5, 40, "price")
    assert result.stderr == ""


def test_explore_says_where_the_page_is_and_why_alpha(
    folder, tmp_path, done, options, only_own, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    short = [*options[:-2], "--drop", "id", "--alpha", "1"]
    said = done("explore", folder / "prices.csv", *short).stdout
    assert re.search(r"target +price, a number\n", said)
    assert re.search(r"reason +α = 1 was set when the model was fitted\. ", said)
    assert re.search(r"page +prices\.html\n", said)
    assert is_page(tmp_path / "prices.html")
    quiet = done("explore", folder / "prices.csv", *short, "--quiet")
    assert (quiet.stdout, quiet.stderr) == ("", "")


def test_explore_takes_classes(folder, tmp_path, done, only_own):
    page = tmp_path / "page.html"
    quick = ["--hidden", "none", "--epochs", "3", "--drop", "id", "--quiet"]
    done("explore", folder / "states.csv.gz", "--target", "state", "--output", page, *quick)
    assert '"kind":"class"' in page.read_text()


def test_a_file_that_is_no_page_is_refused(folder, tmp_path, refused, done, options, only_own):
    path = tmp_path / "page.html"
    path.write_text("mine")
    message = refused(tmp_path, "explore", folder / "prices.csv", *options, "--drop", "id")
    assert message == (
        f"{path} holds something that is not a page of bbalpha; name another --output, or replace "
        "it with --force."
    )
    done("explore", folder / "prices.csv", *options, "--drop", "id", "--force")
    assert is_page(path)


def test_the_output_is_proved_before_the_training(folder, tmp_path, refused, monkeypatch):
    monkeypatch.setattr(bb.BBAlphaRegressor, "fit", None)
    command = ["explore", folder / "prices.csv", "--target", "price", "--output"]
    message = refused(tmp_path, *command, tmp_path / "no" / "page.html")
    assert message.startswith("--output must be a file that can be written")
    message = refused(tmp_path, *command, folder / "prices.csv")
    assert message.startswith("--output must not be another file of the command")


def test_two_rows_are_too_few(written, tmp_path, refused):
    path = written(tmp_path, "x,y\n1,2\n2,5\n")
    message = refused(
        tmp_path, "explore", path, "--target", "y", "--task", "regression", "--output", "p.html"
    )
    assert message == f"{path} must have at least 3 rows to explore; got 2."


@pytest.mark.parametrize("when", [1, 2])
def test_ctrl_c_leaves_no_page(folder, tmp_path, run, options, monkeypatch, when):
    fit, calls = bb.BBAlphaRegressor.fit, []

    def interrupt(self, X, y, *args, **settings):
        calls.append(self)
        if len(calls) == when:
            raise KeyboardInterrupt
        return fit(self, X, y, *args, **settings)

    monkeypatch.setattr(bb.BBAlphaRegressor, "fit", interrupt)
    result = run("explore", folder / "prices.csv", *options, "--drop", "id", "--quiet")
    assert result.exit_code == 130
    assert result.stderr.endswith("no page was written.\n")
    assert list(tmp_path.iterdir()) == []
