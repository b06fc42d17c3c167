"""Commands to run, tables to run them on, and a model of each task, fitted once."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest
from typer.testing import CliRunner

from bbalpha.cli import app
from bbalpha.tables import Encoder, Target, drop_columns, read_table

# A quick fit of the tables below.
QUICK = ("--drop", "id", "--hidden", "none", "--epochs", "3")


@pytest.fixture(scope="session")
def started():
    """Starts the command as users do, in a process of its own."""
    program = Path(sys.executable).with_name("bbalpha")

    def start(*args, **settings):
        settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | settings
        return subprocess.Popen([program, *map(str, args)], **settings)

    return start


@pytest.fixture(scope="session")
def run():
    """Runs a command in this process."""

    def run(*args):
        return CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)

    return run


@pytest.fixture(scope="session")
def done(run):
    """The result of a command that succeeds."""

    def done(*args):
        result = run(*args)
        assert result.exit_code == 0, result.output
        return result

    return done


@pytest.fixture(scope="session")
def refused(run):
    """The one sentence of a command that fails, having changed nothing in the folder."""

    def refused(folder, *args, code=2):
        before = contents(folder)
        result = run(*args)
        assert result.exit_code == code, result.output
        assert contents(folder) == before
        (line,) = result.stderr.splitlines()
        assert line.startswith("Error: ")
        assert line.endswith((".", "?"))
        return line.removeprefix("Error: ")

    return refused


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="session")
def written():
    """Writes a file and returns its path."""

    def written(folder, text, name="table.csv"):
        path = folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


@pytest.fixture(scope="session")
def quick():
    """The options of the fits of `folder`."""
    return QUICK


@pytest.fixture(scope="session")
def encoded():
    """The inputs and the target of a table as the command line encodes them."""

    def encoded(path, target, drop=()):
        frame = read_table(path)
        labels = Target.learn(frame, target)
        inputs = drop_columns(frame, [target, *drop])
        return Encoder.learn(inputs).encode(inputs), labels.encode(frame), labels

    return encoded


@pytest.fixture(scope="session")
def folder(tmp_path_factory, done):
    """Tables, and a model of each task fitted from the command line with its picture."""
    folder = tmp_path_factory.mktemp("cli")
    frame = houses()
    frame.drop(columns="state").to_csv(folder / "prices.csv", index=False)
    frame.drop(columns="price").to_csv(folder / "states.csv.gz", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        prices = done("fit", "prices.csv", "--target", "price", *QUICK, "--plot", "prices.png")
        states = done("fit", "states.csv.gz", "--target", "state", *QUICK)
    (folder / "prices.txt").write_text(prices.stdout)
    (folder / "states.txt").write_text(states.stdout)
    return folder


@pytest.fixture(scope="session")
def prices(folder):
    """The model of a number."""
    return folder / "prices.safetensors"


@pytest.fixture(scope="session")
def states(folder):
    """The model of a class."""
    return folder / "states.safetensors"


def houses(num_rows=40):
    """Numbers, dates and texts, some of them missing, and two targets."""
    generator = np.random.default_rng(0)
    size = generator.uniform(40, 200, num_rows).round(1)
    price = 2 * size + generator.normal(0, 10, num_rows)
    days = pandas.Timestamp("2000-01-01") + pandas.to_timedelta(np.arange(num_rows), unit="D")
    frame = pandas.DataFrame(
        {
            "id": [f"house {number}" for number in range(num_rows)],
            "size": pandas.Series(size).astype(object),
            "color": generator.choice(["red", "blue"], num_rows).astype(object),
            "built": days.strftime("%Y-%m-%d"),
            "price": price.round(2),
            "state": np.where(price > 240, "sold", "kept"),
        }
    )
    frame.loc[::7, "size"] = None
    frame.loc[::9, "color"] = None
    return frame
