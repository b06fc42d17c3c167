"""The page as one self-contained HTML file: no network, no scripts.

Drawings are part of the text and take their colors from the page, light or dark.
"""

import re
from collections.abc import Iterable, Iterator
from html import escape
from importlib.resources import files
from itertools import groupby

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
from bbalpha_paper.report.drawing import panel_svg
from bbalpha_paper.report.palette import Palette

LONGEST_WHOLE_WORD = 30  # characters that fit on a phone


def html_page(page: Page, palette: Palette) -> str:
    """The whole file."""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(page.title)}</title>",
            f"<style>\n{_style()}\n{palette.css()}\n</style>\n</head>\n<body>\n<main>",
            f"<header>\n<h1>{escape(page.title)}</h1>",
            *(_block(paragraph, palette) for paragraph in page.introduction),
            _facts(page.facts),
            "</header>",
            f'<nav aria-label="Experiments">\n{_table(page.overview)}\n</nav>',
            *(_section(section, palette) for section in page.sections),
            "</main>\n</body>\n</html>\n",
        ]
    )


def _style() -> str:
    return (files("bbalpha_paper.report") / "page.css").read_text("utf-8").strip()


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    entries = (
        f"<div><dt>{_inline(name)}</dt><dd>{_inline(value)}</dd></div>" for name, value in facts
    )
    return "<dl>\n" + "\n".join(entries) + "\n</dl>"


def _section(section: Section, palette: Palette) -> str:
    return "\n".join(
        [
            f'<section id="{escape(section.name)}">',
            f"<h2>{_inline(section.title)}</h2>",
            f'<p class="place">{_inline(section.place)}</p>',
            f'<p class="outcome">{_inline(section.outcome)}</p>',
            *_blocks(section.blocks, palette),
            "</section>",
        ]
    )


def _blocks(blocks: Iterable[Block], palette: Palette) -> Iterator[str]:
    """The blocks; consecutive tables may stand side by side."""
    for are_tables, group in groupby(blocks, lambda block: isinstance(block, Table)):
        texts = [_block(block, palette) for block in group]
        if are_tables and len(texts) > 1:
            yield '<div class="tables">\n' + "\n".join(texts) + "\n</div>"
        else:
            yield from texts


def _block(block: Block, palette: Palette) -> str:
    match block:
        case Paragraph(text):
            return f"<p>{_inline(text)}</p>"
        case Commands(lines):
            code = "\n".join(
                f"<code>{' '.join(map(_word, line.split(' ')))}</code>" for line in lines
            )
            return f"<pre>{code}</pre>"
        case Table():
            return _table(block)
        case Figure():
            return _figure(block, palette)
        case Details(label, blocks):
            inside = "\n".join(_blocks(blocks, palette))
            return f"<details>\n<summary>{_inline(label)}</summary>\n{inside}\n</details>"


def _word(word: str) -> str:
    """A word of a command; a narrow page must not break a short one at a hyphen."""
    text = escape(word, quote=False)
    return f"<span>{text}</span>" if "-" in word and len(word) <= LONGEST_WHOLE_WORD else text


def _table(table: Table) -> str:
    header = "".join(f'<th scope="col">{_inline(name)}</th>' for name in table.header)
    bodies = "\n".join(_group(group, len(table.header)) for group in table.groups)
    caption = f"<figcaption>{_inline(table.caption)}</figcaption>\n" if table.caption else ""
    return (
        f'<figure class="table">\n{caption}<div class="scroll" tabindex="0">\n<table>\n'
        f"<thead><tr>{header}</tr></thead>\n{bodies}\n</table>\n</div>\n</figure>"
    )


def _group(group: Group, num_columns: int) -> str:
    label = (
        f'<tr class="group"><th scope="rowgroup" colspan="{num_columns}">'
        f"<span>{_inline(group.label)}</span></th></tr>\n"
        if group.label
        else ""
    )
    return f"<tbody>\n{label}" + "\n".join(map(_row, group.rows)) + "\n</tbody>"


def _row(row: tuple[Cell, ...]) -> str:
    first, *others = row
    cells = "".join(f"<td{_class(cell)}>{_inline(cell.text)}</td>" for cell in others)
    return f'<tr><th scope="row">{_inline(first.text)}</th>{cells}</tr>'


def _class(cell: Cell) -> str:
    return f' class="{cell.kind}"' if cell.kind else ""


def _figure(figure: Figure, palette: Palette) -> str:
    keys = "".join(
        f'<li><span class="key{" dashed" if key.dashed else ""}" '
        f'style="border-color: {palette.variable(key.color)}"></span>{_inline(key.label)}</li>'
        for key in figure.legend
    )
    legend = f'<ul class="legend">{keys}</ul>\n' if keys else ""
    drawings = "\n".join(
        _drawing(panel_svg(panel, f"{figure.name}-{number}"), panel.title, palette)
        for number, panel in enumerate(figure.panels)
    )
    layout = {1: " alone", 2: " wide", 4: " wide"}.get(len(figure.panels), "")
    return (
        f'<figure class="drawing">\n<figcaption>{_inline(figure.caption)}</figcaption>\n{legend}'
        f'<div class="panels{layout}">\n{drawings}\n</div>\n</figure>'
    )


def _drawing(svg: str, title: str, palette: Palette) -> str:
    label = f'<svg role="img" aria-label="{escape(title)}"'
    return palette.applied(svg.replace("<svg", label, 1).strip())


def _inline(text: str) -> str:
    """The text with code and links marked up, and equations kept on one line."""
    for sign in (" = ", " · 10"):
        text = text.replace(sign, sign.replace(" ", "\u00a0"))
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
    return re.sub(r"\[([^]]+)\]\(#([\w-]+)\)", r'<a href="#\2">\1</a>', text)
