"""`bbalpha-paper report` writes a page, and refuses what it cannot read or write."""

import json
import re
from dataclasses import asdict

import pytest
from typer.testing import CliRunner

from bbalpha_paper.cli import app
from bbalpha_paper.rows import append_rows, rows_file


def written(folder, rows):
    for entry in rows:
        append_rows(rows_file(folder, entry.experiment, entry.dataset), [entry])
    return folder


def run(*args):
    return CliRunner().invoke(app, ["report", *map(str, args)], catch_exceptions=False)


def refused(*args):
    result = run(*args)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    return line.removeprefix("Error: ")


def test_the_command_writes_one_html_file(tmp_path, rows):
    results = written(tmp_path / "results", rows["probit"])
    output = tmp_path / "report.html"
    result = run(results, "--output", output)
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert result.stderr == f"9 runs of 1 experiment: {output}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "results"]
    assert "−0.520 ± 0.012" in output.read_text("utf-8")
    assert str(tmp_path) not in output.read_text("utf-8")


def test_the_command_writes_markdown_with_its_drawings(tmp_path, rows):
    results = written(tmp_path / "results", rows["toy"])
    assert run(results, "--output", tmp_path / "docs.md", "--quiet").output == ""
    (link,) = re.findall(r"\]\(([^)#]+)\)", (tmp_path / "docs.md").read_text("utf-8"))
    assert (tmp_path / link).read_text("utf-8").startswith("<?xml")


def test_the_page_names_the_command_that_made_it(tmp_path, monkeypatch, rows):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "docs" / "results", rows["toy"])
    run("docs/results", "--output", "docs/page.md")
    page = (tmp_path / "docs" / "page.md").read_text("utf-8")
    assert "`bbalpha-paper report docs/results --output docs/page.md`" in page


def test_results_and_page_have_default_names(tmp_path, rows, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "results", rows["probit"])
    assert run().stderr == "9 runs of 1 experiment: report.html\n"
    assert (tmp_path / "report.html").is_file()


def test_paths_that_cannot_be_read_or_written_are_refused(tmp_path, rows):
    results = written(tmp_path / "results", rows["toy"])
    page = tmp_path / "report.html"
    assert refused(results, "--output", tmp_path / "a.pdf") == (
        f"--output must end in .html or .md; got {tmp_path / 'a.pdf'}."
    )
    assert "got the folder" in refused(results, "--output", folder(tmp_path / "b.html"))
    assert "no such file or directory" in refused(results, "--output", tmp_path / "no" / "c.md")
    assert refused(tmp_path / "none", "--output", page) == (
        f"RESULTS must be a folder; got nothing at {tmp_path / 'none'}."
    )
    (tmp_path / "rows.jsonl").write_text("")
    assert "got the file" in refused(tmp_path / "rows.jsonl", "--output", page)
    assert "got none in" in refused(folder(tmp_path / "empty"), "--output", page)
    (tmp_path / "d_files").write_text("")
    sentence = refused(results, "--output", tmp_path / "d.md")
    assert re.search(r"^Could not write .*d_files/.*\.svg: .+\.$", sentence)
    assert not page.exists()


def folder(path):
    path.mkdir()
    return path


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"^line 10 of .*pima\.jsonl must be a row in JSON, .*; got b'{'\.$"),
        ("[]", r"^line 10 of .* must have the fields experiment, .*; got b'\[\]'\.$"),
        ('{"experiment": "probit"}', r"must have the fields experiment, .*; got 'experiment'\.$"),
        ({"alpha": "x"}, r"^the field alpha of line 10 of .* must be a number; got 'x'\.$"),
        ({"metrics": 1}, r"^the field metrics of line 10 of .* must be an object; got 1\.$"),
        ({"split": 0.5}, r"^the field split of line 10 of .* must be a whole number; got 0\.5\.$"),
        ({"dataset": 1}, r"^the field dataset of line 10 of .* must be a text; got 1\.$"),
        (
            {"alpha": float("inf")},
            r"^line 10 of .* must be a row in JSON, with finite numbers; got b",
        ),
        ({"metrics": {"error": float("nan")}}, r"^line 10 of .* JSON, with finite numbers; got b"),
        (
            {"settings": {}},
            r"^the field settings of line 10 of .* with a text field named scale; got {}\.$",
        ),
        (
            {"settings": {"scale": 1}},
            r"an object with a text field named scale; got {'scale': 1}\.$",
        ),
        ({"dataset": "\ud800"}, r"^line 10 of .*pima\.jsonl must be a row in JSON, with finite"),
        ({"dataset": "\x1b[31m"}, r"dataset of line 10 of .* must be at most 200 printable char"),
        (
            {"version": "v" * 10**6},
            r"must be at most 200 printable characters; got 'v{12}\.\.\.v+'",
        ),
        ({"alpha": 10**400}, r"the field alpha of line 10 of .* must be at most 9.22337e\+18 in"),
        ({"seed": True}, r"the field seed of line 10 of .* must be a whole number; got True\.$"),
        ("[" * 10**5, r"^line 10 of .* must be a row in JSON, with finite numbers; got b'\[\["),
        ({"experiment": "x"}, r"must be one of divergence, .*; got 'x'\.$"),
    ],
)
def test_a_broken_line_is_refused_in_one_sentence(tmp_path, rows, line, message):
    file = rows_file(written(tmp_path / "results", rows["probit"]), "probit", "pima")
    if isinstance(line, dict):
        line = json.dumps(asdict(rows["probit"][0]) | line)
    file.write_text(f"{file.read_text('utf-8')}{line}\n", "utf-8")
    assert re.search(message, refused(tmp_path / "results", "--output", tmp_path / "report.html"))


def test_names_that_look_like_html_or_shell_are_shown_as_text(tmp_path, rows):
    name = "<script>alert(1)</script>;x"
    lines = [json.dumps(asdict(row) | {"dataset": name}) for row in rows["probit"]]
    (tmp_path / "results" / "probit").mkdir(parents=True)
    (tmp_path / "results" / "probit" / "x.jsonl").write_text("\n".join(lines) + "\n")
    for page in (tmp_path / "page.md", tmp_path / "page.html"):
        assert run(tmp_path / "results", "--output", page).exit_code == 0
        assert "<script>alert" not in page.read_text("utf-8")
    quoted = "--data &#x27;&lt;script&gt;alert(1)&lt;/script&gt;;x&#x27; --alphas"
    assert quoted in (tmp_path / "page.md").read_text("utf-8")
