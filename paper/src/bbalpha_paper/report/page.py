"""The page: a section per experiment of a results folder, in the order of the paper."""

from collections.abc import Sequence

from bbalpha_paper.experiments import NAMES
from bbalpha_paper.report.background import background, reproduction, scales
from bbalpha_paper.report.document import Page, Paragraph, Section, Table, plain_rows
from bbalpha_paper.report.runs import Runs, ordered
from bbalpha_paper.report.sections import section_of
from bbalpha_paper.report.words import NONE, count, time
from bbalpha_paper.rows import Row

TITLE = "Black-box α-divergence minimization: our results and the paper's"
INTRODUCTION = (
    "The experiments of Hernández-Lobato et al., Black-Box α-Divergence Minimization (ICML 2016), "
    "rerun with bbalpha and compared with the published numbers.",
    "Numbers are means ± one standard error over splits or seeds; each table gives their number "
    "next to the data set. The paper has 50 splits or 20 seeds. VB is variational Bayes, the limit "
    "α = 0. Predictions average 1,000 draws of q unless a table says 50, the number in the "
    "authors' code. All α of a split share the start, the order of the minibatches and the noise, "
    "so their differences are paired. A dash marks a number that was not computed or published.",
    "The commands write their rows to the folder `results`. They download the data sets, or read "
    "them from the folder named by the environment variable BBALPHA_DATA; see "
    "`bbalpha-paper datasets --help`.",
)


def page_of(rows: Sequence[Row], folder: str, output: str = "report.html") -> Page:
    """The page of these rows.

    Args:
        rows: From `read_folder`.
        folder: The results folder, as the page names it.
        output: The file of the page, as the page names it.

    Raises:
        ValueError: If a row belongs to an unknown experiment.
    """
    by_name = {name: Runs(row for row in rows if row.experiment == name) for name in NAMES}
    for row in rows:
        if row.experiment not in NAMES:
            raise ValueError(
                f"the experiment of every row must be one of {', '.join(NAMES)}; "
                f"got {row.experiment!r}."
            )
    present = {name: runs for name, runs in by_name.items() if runs}
    sections = tuple(_section(name, runs) for name, runs in present.items())
    return Page(
        title=TITLE,
        introduction=tuple(map(Paragraph, INTRODUCTION)),
        facts=_facts(Runs(rows), folder, output),
        overview=_overview(sections, present),
        sections=sections,
    )


def _section(name: str, runs: Runs) -> Section:
    module = section_of(name)
    return Section(
        name=name,
        title=module.TITLE,
        place=module.PLACE,
        outcome=module.outcome(runs),
        blocks=(
            Paragraph(module.INTRODUCTION),
            reproduction(runs),
            *module.blocks(runs),
            background(runs),
        ),
    )


def _facts(runs: Runs, folder: str, output: str) -> tuple[tuple[str, str], ...]:
    versions = ", ".join(ordered((row.version for row in runs), ()))
    return (
        ("bbalpha", versions),
        ("scale", scales(runs)),
        ("runs", f"{len(runs):,}"),
        ("time of all runs", time(runs.seconds)),
        ("this page", f"`bbalpha-paper report {folder} --output {output}`"),
    )


def _overview(sections: Sequence[Section], present: dict[str, Runs]) -> Table:
    rows = (
        (
            f"[{section.title}](#{section.name})",
            section.outcome,
            count(len(present[section.name]), "run"),
            time(present[section.name].seconds),
        )
        for section in sections
    )
    absent = (
        (section_of(name).TITLE, "Not run.", count(0, "run"), NONE)
        for name in NAMES
        if name not in present
    )
    header = ("experiment", "outcome", "runs", "time")
    return Table(caption="", header=header, groups=plain_rows(*rows, *absent), num_text_columns=2)
