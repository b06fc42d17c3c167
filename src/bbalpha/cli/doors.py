"""The door of the command line: a user's mistake is answered with one sentence and exit code 2."""

import contextlib
import errno
import io
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from bbalpha.cli.printing import note

EXIT_CODE = 2  # for everything that the user can correct
INTERRUPTED = 130  # after Ctrl-C, by a convention of shells
CLOSED_PIPE = 1  # as in typer
FAILED_WRITES = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}
OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"  # in jax's message
OWN = ("bbalpha", "sklearn")  # packages whose errors address users; includes `bbalpha_paper`


class Refusal(typer.TyperException):
    """One sentence that tells the user what to correct."""

    exit_code = EXIT_CODE


class Commands(TyperGroup):
    """The commands of a program, with one-line errors instead of typer's usage and box.

    Attributes:
        default: The command to run if none is named.
    """

    default = "--help"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, or the default if there are none."""
        return super().parse_args(ctx, args or [self.default])

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run the command that the arguments name, and exit."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # for terminals without an α
        with plain_warnings(quiet=False):
            sys.exit(self._run(*args, **extra))

    def _run(self, *args: Any, **extra: Any) -> Any:
        """Run the command, print a sentence for an error, and return the exit code."""
        try:
            if sys.stdout is None:
                raise Refusal("standard output is closed.")
            code = super().main(*args, standalone_mode=False, **extra)
            sys.stdout.flush()
        except (typer.TyperException, OSError, MemoryError, RuntimeError) as error:
            code, sentences = _answer(error, self.name)
            for sentence in sentences:
                note(sentence)
        return code


def new_app(name: str) -> typer.Typer:
    """A new program of that name, which has no commands yet."""
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

    An error from any other package is a defect, so it keeps its traceback.
    """
    try:
        yield
    except kinds as error:
        if not _is_own(error):
            raise
        raise Refusal(str(error)) from None


@contextmanager
def plain_warnings(quiet: bool) -> Iterator[None]:
    """Print warnings as sentences on standard error, or drop them."""

    def show(message: Warning | str, *_: Any) -> None:
        note(f"Warning: {message}", quiet)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _is_own(error: Exception) -> bool:
    # jax removes its own frames from a traceback, so its errors seem to come from the caller; but
    # it also adds a note, by which we recognize them.
    if getattr(error, "__notes__", None):
        return False
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_globals.get("__name__", "").startswith(OWN)


def _answer(error: Exception, program: str | None) -> tuple[int, list[str]]:
    """The exit code and the sentences for an error; a defect is raised again."""
    if isinstance(error, Refusal):
        return EXIT_CODE, [f"Error: {' '.join(error.message.splitlines())}"]
    if isinstance(error, typer.TyperException):  # its own: no such option, a missing argument
        context = getattr(error, "ctx", None)
        command = context.command_path if context else program
        return EXIT_CODE, [f"Error: {error.format_message()}", f"Try '{command} --help' for help."]
    if isinstance(error, MemoryError) or OUT_OF_MEMORY in str(error):
        return EXIT_CODE, [f"Error: there is not enough memory{_in_brackets(str(error))}."]
    # An error about a file carries its name; without a name, it is about standard output.
    if isinstance(error, OSError) and error.filename is None and error.errno in FAILED_WRITES:
        _give_up_output()
        if error.errno == errno.EPIPE:  # whoever read the output has seen enough
            return CLOSED_PIPE, []
        reason = os.strerror(error.errno).lower()
        return EXIT_CODE, [f"Error: standard output cannot be written: {reason}."]
    raise error


def _give_up_output() -> None:
    """Discard unwritten output, which Python would otherwise try to write again at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _in_brackets(text: str) -> str:
    first = text.splitlines()[0].rstrip(".") if text.strip() else ""
    return f" ({first})" if first else ""
