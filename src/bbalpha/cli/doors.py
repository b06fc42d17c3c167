"""Doors: where a wrong input is turned away with one sentence and the exit code 2."""

import io
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

EXIT_CODE = 2  # of everything that the user can correct
OWN = ("bbalpha", "sklearn")  # whose errors are written for users
OPTIONAL = ("rdkit",)  # libraries of extras


class Refusal(typer.TyperException):
    """What the user should correct, in one sentence."""

    exit_code = EXIT_CODE


class Group(TyperGroup):
    """Commands, of which one is run when none is named."""

    default = "--help"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take over the arguments, or the default in place of none."""
        return super().parse_args(ctx, args or [self.default])


class Commands(Group):
    """All commands, which tell a refusal in one line where typer would print usage and a box."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run the command that the arguments name, and exit."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # α in a terminal without it
        try:
            code = super().main(*args, standalone_mode=False, **extra)
        except typer.TyperException as error:
            typer.echo(f"Error: {_sentence(error)}", err=True)
            code = EXIT_CODE
        sys.exit(code)


@contextmanager
def refusing(*kinds: type[Exception]) -> Iterator[None]:
    """Turn errors of these kinds that were raised on purpose into refusals.

    One that comes from elsewhere is a defect, and its traceback is wanted.
    """
    try:
        yield
    except kinds as error:
        if not _is_own(error):
            raise
        raise Refusal(str(error)) from None


@contextmanager
def refusing_missing_library() -> Iterator[None]:
    """Turn the lack of an optional library into a refusal that says how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in OPTIONAL:
            raise
        raise Refusal(str(error)) from None


@contextmanager
def plain_warnings(quiet: bool) -> Iterator[None]:
    """Show warnings as sentences on standard error, or not at all."""

    def show(message: Warning | str, *_: Any) -> None:
        if not quiet:
            typer.echo(f"Warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _is_own(error: Exception) -> bool:
    # jax cuts its frames out of a traceback, so that its errors seem to come from the caller, and
    # leaves a note.
    if getattr(error, "__notes__", None):
        return False
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_globals.get("__name__", "").partition(".")[0] in OWN


def _sentence(error: typer.TyperException) -> str:
    """The message in one line; typer's own, made like ours and with a pointer to the help."""
    text = " ".join(error.format_message().splitlines())
    if isinstance(error, Refusal):
        return text
    text = text.replace("Value error, ", "").replace("Input should be", "it must be")
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "bbalpha"
    return f"{text.rstrip('.')} ({command} --help explains the options)."
