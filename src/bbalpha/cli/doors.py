"""Doors: a mistake of the user is answered with one sentence and exit code 2."""

import io
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

EXIT_CODE = 2  # for everything that the user can correct
INTERRUPTED = 130  # after Ctrl-C, by a convention of shells
OWN = ("bbalpha", "sklearn")  # packages, bbalpha's siblings included, whose errors address users


class Refusal(typer.TyperException):
    """One sentence about what the user should correct."""

    exit_code = EXIT_CODE


class Commands(TyperGroup):
    """The commands of a program, with errors in one line instead of typer's usage and box.

    Attributes:
        default: The command that runs if none is named.
    """

    default = "--help"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, or the default if there are none."""
        return super().parse_args(ctx, args or [self.default])

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run the command that the arguments name, and exit."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # for terminals without an α
        try:
            code = super().main(*args, standalone_mode=False, **extra)
        except Refusal as refusal:
            typer.echo(f"Error: {' '.join(refusal.message.splitlines())}", err=True)
            code = EXIT_CODE
        except typer.TyperException as error:  # typer's own: no such option, a missing argument
            typer.echo(f"Error: {error.format_message()}", err=True)
            context = getattr(error, "ctx", None)
            command = context.command_path if context else self.name
            typer.echo(f"Try '{command} --help' for help.", err=True)
            code = EXIT_CODE
        sys.exit(code)


def new_app(name: str) -> typer.Typer:
    """A program of that name, without commands yet."""
    return typer.Typer(
        cls=Commands,
        name=name,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # the same help on a terminal and in a pipe
        context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    )


@contextmanager
def refusing(*kinds: type[Exception]) -> Iterator[None]:
    """Turn errors of these kinds into refusals, if their messages were written for users.

    An error of another package is a defect, and its traceback is wanted.
    """
    try:
        yield
    except kinds as error:
        if not _is_own(error):
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
    # jax removes its frames from a traceback, so its errors seem to come from the caller; the note
    # that it adds gives them away.
    if getattr(error, "__notes__", None):
        return False
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_globals.get("__name__", "").startswith(OWN)
