"""Printing: lines and folded cells on a terminal, plain text in a pipe."""

import os
import pty
import subprocess
import sys

from bbalpha.cli.printing import count, print_facts, print_json, print_table

HEADER, ROWS = ("name", "source"), [("boston", "x" * 300), ("yacht", "[bold]y")]


def on_a_terminal(code):
    """What a program prints if its standard output is a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", code]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(command, stdout=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        while piece := _read(ours):
            shown += piece
        os.close(ours)
    assert process.returncode == 0
    return shown.decode()


def _read(terminal):
    try:
        return os.read(terminal, 4096)
    except OSError:  # how Linux says that the other end is closed
        return b""


def test_a_terminal_gets_a_table_with_lines():
    shown = on_a_terminal(f"from bbalpha.cli import print_table; print_table({HEADER!r}, {ROWS!r})")
    assert "│" in shown
    assert "…" not in shown
    assert shown.count("x") == 300
    assert "[bold]y" in shown


def test_a_terminal_gets_names_in_bold():
    shown = on_a_terminal(
        "from bbalpha.cli.printing import print_facts; print_facts({'rows': '[3]'})"
    )
    assert "\x1b[1mrows" in shown
    assert "[3]" in shown


def test_a_pipe_gets_plain_columns(capsys):
    print_table(HEADER, ROWS)
    assert capsys.readouterr().out == f"name    source\nboston  {'x' * 300}\nyacht   [bold]y\n"
    print_facts({"rows": "3", "energy": "1"})
    print_facts({})
    assert capsys.readouterr().out == "rows    3\nenergy  1\n"


def test_numbers_that_are_not_finite_are_null_in_json(capsys):
    print_json({"a": [float("nan"), 1.5], "b": float("inf"), "α": "é"})
    text = '{\n  "a": [\n    null,\n    1.5\n  ],\n  "b": null,\n  "α": "é"\n}\n'
    assert capsys.readouterr().out == text


def test_a_count_has_its_noun():
    assert (count(1, "row"), count(2000, "row")) == ("1 row", "2,000 rows")
