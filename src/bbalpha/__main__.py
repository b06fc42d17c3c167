"""The command line, as `bbalpha` and as `python -m bbalpha`."""

import sys

NEEDED = ("matplotlib", "pandas", "pyarrow", "typer")  # the libraries of the extra `cli`


def main() -> None:
    """Run the command line, or say what to install when its libraries are missing."""
    try:
        from bbalpha.cli import app
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:
            raise
        sys.exit(
            f"The bbalpha command needs {error.name}, which is not installed. "
            'Install it with: pip install "bbalpha[cli]"'
        )
    app(prog_name="bbalpha")


if __name__ == "__main__":
    main()
