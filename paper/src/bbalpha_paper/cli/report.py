"""`bbalpha report`: the rows of experiments made into a page."""

from pathlib import Path
from typing import Annotated

import typer

from bbalpha.cli.doors import Refusal, refusing
from bbalpha.cli.options import Quiet
from bbalpha.cli.paths import check_output, replacing
from bbalpha.cli.printing import count, note

HTML, MARKDOWN = ".html", ".md"


def report_results(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", help="Folder that reproduce has written to.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The page: .html is one file with all in it, .md has its figures in a folder "
            "beside it.",
        ),
    ] = Path("report.html"),
    quiet: Quiet = False,
) -> None:
    """Make a page of tables and figures from the results, beside the published numbers.

    It may be made while experiments are under way: what is missing is a dash.

    \b
    bbalpha reproduce all --scale smoke --output results
    bbalpha report results --output report.html
    """  # noqa: D301
    if output.suffix.lower() not in (HTML, MARKDOWN):
        raise Refusal(f"--output must end in {HTML} or {MARKDOWN}; got {output}.")
    check_output(output, "--output", ())

    from bbalpha_paper.report.rows import read_folder

    with refusing(FileNotFoundError, ValueError):
        rows = read_folder(results)

    from bbalpha_paper.report.page import page_of

    with refusing(ValueError):
        page = page_of(rows, _shown(results), _shown(output))
    if output.suffix.lower() == HTML:
        from bbalpha_paper.report.html import html_page
        from bbalpha_paper.report.palette import Palette

        text = html_page(page, Palette.of({row.alpha for row in rows}))
    else:
        from bbalpha_paper.report.markdown import markdown_page

        folder = output.with_name(f"{output.stem}_files")
        text, drawings = markdown_page(page, folder.name)
        _write_drawings(folder, drawings)
    with replacing(output, "--output") as temporary:
        temporary.write_text(text, encoding="utf-8")
    note(f"{count(len(rows), 'run')} of {count(len(page.sections), 'experiment')}: {output}", quiet)


def _shown(path: Path) -> str:
    """A path as the page says it: as it was given, but nothing of where this machine keeps it."""
    return path.resolve().name if path.is_absolute() or ".." in path.parts else path.as_posix()


def _write_drawings(folder: Path, drawings: dict[str, str]) -> None:
    """Write the drawings, each whole, into a folder that is made."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise Refusal(f"--output must have room for the folder {folder}: {reason}.") from None
    for name, drawing in drawings.items():
        with replacing(folder / name, "--output") as temporary:
            temporary.write_text(drawing, encoding="utf-8")
