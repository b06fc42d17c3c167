"""The command line, as `python -m bbalpha_paper`."""

from bbalpha_paper.cli import app

if __name__ == "__main__":
    app(prog_name="bbalpha-paper")
