"""Refusals: errors raised on purpose, printed as one sentence instead of a traceback."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from bbalpha.cli import Refusal

OWN = ("bbalpha", "bbalpha_paper", "sklearn")  # packages whose messages are written for users


@contextmanager
def refusing(*kinds: type[Exception]) -> Iterator[None]:
    """Turn errors of these kinds into refusals, unless they come from elsewhere.

    An error that none of these packages raised is a defect and keeps its traceback.
    """
    try:
        yield
    except kinds as error:
        if not _is_own(error):
            raise
        raise Refusal(str(error)) from None


def _is_own(error: Exception) -> bool:
    # jax removes its frames from a traceback, so that its errors seem to come from the caller, but
    # it leaves a note.
    if getattr(error, "__notes__", None):
        return False
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_globals.get("__name__", "").partition(".")[0] in OWN
