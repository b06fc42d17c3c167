"""`bbalpha-paper report`: a page made from the rows of experiments."""

from pathlib import Path
from typing import Annotated

import typer

from bbalpha.cli import Quiet, Refusal, check_output, count, note, refusing
from bbalpha_paper.rows import read_folder
from bbalpha_paper.writing import write_text

HTML, MARKDOWN = ".html", ".md"


def report_results(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", help="Folder that bbalpha-paper run has written.")
    ] = Path("results"),
    output: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The page: .html is a single file, .md has its figures in a folder next to it.",
        ),
    ] = Path("report.html"),
    quiet: Quiet = False,
) -> None:
    """Make a page of tables and figures that compares results with the published numbers.

    You can make it while experiments are still running: dashes stand for missing numbers.

    \b
    bbalpha-paper run all --scale smoke
    bbalpha-paper report
    bbalpha-paper report paper/results --output docs/reproduction.md
    """  # noqa: D301
    if output.suffix.lower() not in (HTML, MARKDOWN):
        raise Refusal(f"--output must end in {HTML} or {MARKDOWN}; got {output}.")
    check_output(output, "--output", ())
    with refusing(FileNotFoundError, ValueError):
        rows = read_folder(results)

    from bbalpha_paper.report.page import page_of  # needs numpy

    with refusing(ValueError):
        page = page_of(rows, _shown(results), _shown(output))
    with refusing(OSError):
        if output.suffix.lower() == HTML:
            from bbalpha_paper.report.html import html_page  # needs matplotlib
            from bbalpha_paper.report.palette import Palette

            write_text(output, html_page(page, Palette.of({row.alpha for row in rows})))
        else:
            from bbalpha_paper.report.markdown import markdown_page  # needs matplotlib

            folder = output.with_name(f"{output.stem}_files")
            text, drawings = markdown_page(page, folder.name)
            for name, drawing in drawings.items():
                write_text(folder / name, drawing)
            write_text(output, text)
    note(f"{count(len(rows), 'run')} of {count(len(page.sections), 'experiment')}: {output}", quiet)


def _shown(path: Path) -> str:
    """A path as the page shows it: as given, but without folders of this machine."""
    return path.resolve().name if path.is_absolute() or ".." in path.parts else path.as_posix()
