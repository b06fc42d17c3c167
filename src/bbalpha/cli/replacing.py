"""Replacing files: a model of something else is replaced only if the user agrees."""

import sys
from pathlib import Path
from typing import Any

import typer

from bbalpha.cli.doors import Refusal
from bbalpha.cli.header import facts_of_file
from bbalpha.tables.messages import quote


def check_replaceable(path: Path, table: Any) -> None:
    """Ask on a terminal, and refuse elsewhere, if the file holds a different model.

    A model of the same target and columns may be replaced.

    Args:
        path: A file that exists.
        table: The training table of the new model.
    """
    found = _difference(path, table)
    if found is not None:
        ask_or_refuse(path, found)


def ask_or_refuse(path: Path, found: str) -> None:
    """Ask on a terminal, and refuse elsewhere, before replacing a file that holds `found`."""
    if _on_terminal():
        if typer.confirm(f"{path} holds {found}. Replace it?", err=True):
            return
        raise Refusal(f"{path} was not replaced.")
    raise Refusal(f"{path} holds {found}; name another --output, or replace it with --force.")


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _difference(path: Path, table: Any) -> str | None:
    """What the file holds, or None if it is a model of the same target and columns."""
    try:
        facts = facts_of_file(path)
    except Refusal:
        return "something that is not a model of this version of bbalpha"
    if facts["target"] is None:
        return "a model that was saved from Python"
    if facts["target"] != table.target.name:
        return f"a model of another target, {quote(facts['target'])}"
    names = {column["name"] for column in facts["columns"]}
    if names != {column["name"] for column in table.encoder.to_json()["columns"]}:
        return f"a model of {quote(facts['target'])} from other columns"
    return None
