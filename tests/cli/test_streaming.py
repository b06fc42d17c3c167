"""Facts about streaming: a table that is predicted in parts is predicted as at once."""

import gzip

import numpy as np
import pandas
import pytest

from bbalpha.cli import parts, streaming
from bbalpha.tables import read_table, stream, write_table


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of 8 rows, read from the file again."""
    monkeypatch.setattr(parts, "ROWS_AT_ONCE", 8)
    monkeypatch.setattr(stream, "MOST_KEPT", 0)


@pytest.fixture
def whole_reads(monkeypatch):
    """Tables that had to be read at once."""
    found = []

    def whole(model, source, wishes, read=streaming._whole):
        found.append(source)
        return read(model, source, wishes)

    monkeypatch.setattr(streaming, "_whole", whole)
    return found


@pytest.mark.parametrize("name", ["p.csv", "p.parquet", "p.csv.gz"])
def test_predictions_in_parts_are_those_of_the_whole(
    folder, prices, tmp_path, done, small_parts, whole_reads, monkeypatch, name
):
    command = ("predict", prices, folder / "prices.csv", "--id", "id", "-o")
    in_parts = done(*command, tmp_path / name)
    monkeypatch.setattr(parts, "ROWS_AT_ONCE", 8192)
    at_once = done(*command, tmp_path / f"whole.{name}")
    found = read_table(tmp_path / name).to_pandas()
    expected = read_table(tmp_path / f"whole.{name}").to_pandas()
    assert list(found) == list(expected)
    assert found["id"].tolist() == expected["id"].tolist()
    numeric = found.columns[1:]
    np.testing.assert_allclose(
        found[numeric].astype(float), expected[numeric].astype(float), rtol=2e-5
    )
    assert in_parts.stderr.replace(name, "") == at_once.stderr.replace(f"whole.{name}", "")
    assert whole_reads == []


def test_remarks_are_added_up_over_parts(
    folder, prices, tmp_path, done, small_parts, written, monkeypatch
):
    table = (folder / "prices.csv").read_text().replace("red", "green")
    path = written(tmp_path, table.replace("house 31,", "house 31,9e9,", 1).replace("9e9,", "", 1))
    notes = done("predict", prices, path).stderr
    monkeypatch.setattr(parts, "ROWS_AT_ONCE", 8192)
    assert notes == done("predict", prices, path).stderr
    assert " of 40 texts were not in the training table, such as 'green'" in notes


def test_a_refusal_names_the_row_of_the_whole_table(
    folder, prices, tmp_path, refused, small_parts, written
):
    lines = (folder / "prices.csv").read_text().splitlines()
    for row in (20, 39):
        cells = lines[row].split(",")
        lines[row] = ",".join([cells[0], "big", *cells[2:]])
    path = written(tmp_path, "\n".join(lines) + "\n")
    message = refused(tmp_path, "predict", prices, path, "-o", tmp_path / "p.csv")
    assert message == (
        "column 'size' must hold finite numbers; got 'big' in row 20, the first of 2 (correct it "
        "in the file)."
    )


def test_the_whole_column_decides_how_its_numbers_are_written(
    prices, tmp_path, done, small_parts, whole_reads, written, monkeypatch
):
    plain = "".join("1.234;red;2000-01-05\n" for _ in range(20))
    commas = "".join("60,5;red;2000-01-05\n" for _ in range(20))
    path = written(tmp_path, "size;color;built\n" + plain + commas)
    found = done("predict", prices, path, "-q").stdout
    assert len(whole_reads) == 1
    monkeypatch.setattr(parts, "ROWS_AT_ONCE", 8192)
    expected = done("predict", prices, path, "-q").stdout
    first, second = (
        np.loadtxt(text.splitlines(), delimiter=",", skiprows=1) for text in (found, expected)
    )
    np.testing.assert_allclose(first, second, rtol=2e-5)


def test_a_failure_in_a_later_part_leaves_nothing(
    folder, prices, tmp_path, run, small_parts, monkeypatch
):
    def failing(model, levels, described, table_of=streaming.table_of, calls=[]):  # noqa: B006
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return table_of(model, levels, described)

    monkeypatch.setattr(streaming, "table_of", failing)
    path = tmp_path / "p.csv"
    path.write_text("old")
    result = run("predict", prices, folder / "prices.csv", "-o", path)
    assert result.exit_code != 0
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["p.csv"]


def test_a_model_is_fitted_to_files_of_a_pattern_and_to_a_query(folder, tmp_path, done, quick):
    frame = pandas.read_csv(folder / "prices.csv")
    (tmp_path / "parts").mkdir()
    for number in range(4):
        write_table(frame[number * 10 :][:10], tmp_path / "parts" / f"{number}.parquet")
    models = {"whole": folder / "prices.csv", "pattern": tmp_path / "parts" / "*.parquet"}
    models["folder"] = tmp_path / "parts"
    models["query"] = f"SELECT * FROM '{tmp_path}/parts/*.parquet'"
    stored = {}
    for name, source in models.items():
        path = tmp_path / f"{name}.safetensors"
        done("fit", source, "--target", "price", *quick, "-o", path, "-q")
        stored[name] = done("predict", path, source, "--quantiles", "none").stdout
    assert len(set(stored.values())) == 1
    assert done("evaluate", tmp_path / "query.safetensors", models["query"]).stdout


def test_a_query_that_cannot_be_run_is_refused(tmp_path, prices, refused, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in (["fit"], ["predict", prices], ["evaluate", prices], ["explore"]):
        options = ["--target", "y"] if len(command) == 1 else []
        message = refused(tmp_path, *command, "SELECT * FROM 'gone.csv'", *options)
        assert message.startswith("the query cannot be run: IO Error: No files found")


def test_an_output_must_not_be_a_file_of_the_source(folder, prices, tmp_path, refused):
    write_table(pandas.read_csv(folder / "prices.csv"), tmp_path / "a.csv")
    for source in (tmp_path, tmp_path / "*.csv", f"SELECT * FROM '{tmp_path}/a.csv'"):
        message = refused(tmp_path, "predict", prices, source, "-o", tmp_path / "a.csv")
        assert message.startswith("--output must not be another file of the command")


def test_a_compressed_table_is_streamed(folder, prices, tmp_path, done, small_parts):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress((folder / "prices.csv").read_bytes()))
    assert (
        done("predict", prices, path).stdout
        == done("predict", prices, folder / "prices.csv").stdout
    )
