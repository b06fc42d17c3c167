"""The command line, as `bbalpha` and as `python -m bbalpha`."""

import gc
import importlib.util
import sys

from bbalpha.engine.leaving import finish, leave_at_signals

NEEDED = ("matplotlib", "pandas", "pyarrow", "typer")  # libraries in the extra `cli`
EXIT_CODE = 2  # as for every mistake that the user can correct
OBJECTS = 200_000  # new ones after which Python looks for garbage


def main() -> None:
    """Run the command line, or say what to install if its libraries are missing."""
    leave_at_signals()
    # Imports and traced programs leave many objects behind, but no garbage.
    gc.set_threshold(OBJECTS)
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        names = " and ".join([", ".join(missing[:-1]), missing[-1]] if missing[1:] else missing)
        print(
            f'Error: the bbalpha command needs {names}; install with pip install "bbalpha[cli]".',
            file=sys.stderr,
        )
        sys.exit(EXIT_CODE)

    from bbalpha.cli import app

    try:
        app(prog_name="bbalpha")
    finally:
        finish()
        gc.freeze()  # or Python would look through all objects once more before it ends


if __name__ == "__main__":
    main()
