"""The command line as `python -m bbalpha`."""

from bbalpha.cli import app

if __name__ == "__main__":
    app(prog_name="bbalpha")
