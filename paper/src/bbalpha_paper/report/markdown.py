"""The page as Markdown, for documentation, with the figures as files in a folder next to it."""

from collections.abc import Iterable
from html import escape
from typing import NamedTuple

from bbalpha_paper.report.document import (
    Block,
    Cell,
    Commands,
    Details,
    Figure,
    Group,
    Page,
    Paragraph,
    Section,
    Table,
)
from bbalpha_paper.report.drawing import figure_svg


class MarkdownPage(NamedTuple):
    """The text, and the drawings by file name."""

    text: str
    drawings: dict[str, str]


def markdown_page(page: Page, folder: str) -> MarkdownPage:
    """The whole page, with links to drawings in the folder."""
    figures = [b for section in page.sections for b in section.blocks if isinstance(b, Figure)]
    parts = [
        f"# {page.title}",
        *(_block(paragraph, folder) for paragraph in page.introduction),
        _lines(["| | |", "|---|---|"], (f"| {_cell(n)} | {_cell(v)} |" for n, v in page.facts)),
        _table(page.overview),
        *(_section(section, folder) for section in page.sections),
    ]
    drawings = {f"{figure.name}.svg": figure_svg(figure) for figure in figures}
    return MarkdownPage("\n\n".join(parts) + "\n", drawings)


def _section(section: Section, folder: str) -> str:
    head = [f'<a id="{section.name}"></a>', f"## {section.title}", f"*{section.place}*"]
    outcome = f"**{_escaped(section.outcome)}**"
    return "\n\n".join([*head, outcome, *(_block(block, folder) for block in section.blocks)])


def _block(block: Block, folder: str) -> str:
    match block:
        case Paragraph(text):
            return _escaped(text)
        case Commands(lines):
            return _commands(lines)
        case Table():
            return _table(block)
        case Figure(name=name, caption=caption):
            return f"{_escaped(caption)}\n\n![{_escaped(caption)}]({folder}/{name}.svg)"
        case Details(label, blocks):
            inside = "\n\n".join(_block(inner, folder) for inner in blocks)
            return f"<details>\n<summary>{_escaped(label)}</summary>\n\n{inside}\n\n</details>"


def _commands(lines: Iterable[str]) -> str:
    """The lines as a block of code; names in them that look like HTML are escaped."""
    if any("<" in line for line in lines):
        return f"<pre><code>{escape(_lines(lines))}</code></pre>"
    return _lines(["```bash"], lines, ["```"])


def _table(table: Table) -> str:
    header = f"| {' | '.join(map(_cell, table.header))} |"
    num_words = table.num_text_columns
    rule = "|" + "---|" * num_words + "---:|" * (len(table.header) - num_words)
    rows = (line for group in table.groups for line in _group(group, len(table.header)))
    text = _lines([header, rule], rows)
    return f"{_escaped(table.caption)}\n\n{text}" if table.caption else text


def _group(group: Group, num_columns: int) -> list[str]:
    label = [f"| **{_cell(group.label)}** |{' |' * (num_columns - 1)}"] if group.label else []
    return label + [f"| {' | '.join(map(_marked, row))} |" for row in group.rows]


def _marked(cell: Cell) -> str:
    return f"**{_cell(cell.text)}**" if cell.kind == "beyond" else _cell(cell.text)


def _cell(text: str) -> str:
    return _escaped(text).replace("|", "\\|").replace("\n", " ")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("*", "\\*")


def _lines(*parts: Iterable[str]) -> str:
    return "\n".join(line for part in parts for line in part)
