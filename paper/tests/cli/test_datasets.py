"""`bbalpha-paper datasets` lists the catalog and writes data sets as tables."""

import gzip
import sys

import numpy as np
import pandas
import pytest
from typer.testing import CliRunner

from bbalpha_paper import datasets
from bbalpha_paper.cli import app


def run(*args):
    args = ["datasets", *map(str, args)]
    return CliRunner().invoke(app, args, catch_exceptions=False)


@pytest.fixture
def frame(tmp_path, monkeypatch):
    """A made-up yacht in the data folder."""
    entry = datasets.CATALOG["yacht"]
    columns = [*entry.feature_names, entry.target_name]
    values = np.random.default_rng(0).normal(size=(entry.num_data, len(columns)))
    frame = pandas.DataFrame(values, columns=columns)
    (tmp_path / "yacht").mkdir()
    frame.to_csv(tmp_path / "yacht" / "yacht.csv.gz", index=False)
    monkeypatch.setenv("BBALPHA_DATA", str(tmp_path))
    return frame


@pytest.mark.parametrize("args", [[], ["list"]])
def test_the_command_lists_the_catalog(args):
    result = run(*args)
    assert result.exit_code == 0
    header, *lines = result.stdout.splitlines()
    assert header.split() == ["name", "task", "rows", "features", "license", "source"]
    assert [line.split()[0] for line in lines] == list(datasets.CATALOG)


def test_a_data_set_is_written_as_a_table(tmp_path, frame):
    result = run("fetch", "yacht", "--csv", tmp_path / "yacht.csv")
    assert result.exit_code == 0, result.output
    pandas.testing.assert_frame_equal(pandas.read_csv(tmp_path / "yacht.csv"), frame)
    fetching, fetched, written = result.stderr.splitlines()
    assert fetching == "Fetching yacht ..."
    assert fetched.startswith("yacht: 308 rows with 6 features, from ")
    command = f"bbalpha fit {tmp_path / 'yacht.csv'} --target residuary_resistance"
    assert written == f"Written to {tmp_path / 'yacht.csv'}. Fit a model to it with: {command}"


@pytest.mark.usefixtures("frame")
def test_quiet_says_nothing():
    assert run("fetch", "yacht", "--quiet").output == ""


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["yachts"], "Did you mean 'yacht'?"),
        (["boston", "--quiet"], "folder must hold boston/boston.csv.gz; got folder="),
        (["cep", "--quiet"], "folder must hold cep/cep.csv.gz; got folder="),
    ],
)
@pytest.mark.usefixtures("frame")
def test_a_data_set_that_is_not_there_is_refused(tmp_path, args, message):
    before = sorted(tmp_path.rglob("*"))
    result = run("fetch", *args, "--csv", tmp_path / "out.csv")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert message in line
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.usefixtures("frame")
def test_a_table_that_cannot_be_written_is_refused_before_the_data_are_fetched(tmp_path):
    result = run("fetch", "yacht", "--csv", tmp_path / "no" / "yacht.csv")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: --csv must be a file")


def test_a_missing_library_is_refused_with_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "cep").mkdir()
    (tmp_path / "cep" / "cep.csv.gz").write_bytes(gzip.compress(b"smiles,PCE\nCCO,1\n"))
    monkeypatch.setenv("BBALPHA_DATA", str(tmp_path))
    monkeypatch.setitem(sys.modules, "rdkit", None)
    result = run("fetch", "cep", "--quiet")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: The fingerprints of cep need rdkit, which is not installed.")
    assert "Install bbalpha-paper[chemistry]" in line
