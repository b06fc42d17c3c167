"""A document: what a page says, as data, before it is HTML or Markdown.

Text is plain, but for `code` between backticks. A figure is made of panels, which stand side by
side where there is room and below each other where there is none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: What it says.
        kind: "" for our numbers, "published" for those of others, "beyond" for what stands out.
    """

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Group:
    """Rows of a table that belong together, under a label if it is not empty."""

    label: str
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table, whose first column names its rows.

    Attributes:
        caption: What it shows; may be empty.
        header: Names of its columns.
        groups: Its rows.
        num_text_columns: How many of the first columns hold words.
    """

    caption: str
    header: tuple[str, ...]
    groups: tuple[Group, ...]
    num_text_columns: int = 1


@dataclass(frozen=True)
class Paragraph:
    """Sentences."""

    text: str


@dataclass(frozen=True)
class Commands:
    """Lines for a terminal."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Key:
    """An entry of a legend.

    Attributes:
        label: What is drawn so.
        color: How, for a light page.
        dashed: Whether its line is broken.
    """

    label: str
    color: str
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """A part of a figure with axes of its own.

    Attributes:
        title: What it shows.
        draw: Draws it on matplotlib's axes.
    """

    title: str
    draw: Callable[[Any], None]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Panels with a common legend; the name is that of its file and unique on the page."""

    name: str
    caption: str
    panels: tuple[Panel, ...]
    legend: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Details:
    """Blocks for those who want to know more."""

    label: str
    blocks: tuple[Paragraph | Table | Commands, ...]


Block = Paragraph | Table | Figure | Commands | Details


@dataclass(frozen=True, kw_only=True)
class Section:
    """One experiment.

    Attributes:
        name: Its name on the command line.
        title: Its heading.
        place: Where the paper has it.
        outcome: What came out, in a sentence.
        blocks: All the rest.
    """

    name: str
    title: str
    place: str
    outcome: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True)
class Page:
    """All sections under a heading.

    Attributes:
        title: The heading.
        introduction: What the page is.
        facts: What holds for all sections, by name.
        overview: The sections at a glance.
        sections: In the order of the paper.
    """

    title: str
    introduction: tuple[Paragraph, ...]
    facts: tuple[tuple[str, str], ...]
    overview: Table
    sections: tuple[Section, ...]


def plain_rows(*rows: tuple[str, ...]) -> tuple[Group, ...]:
    """Rows of text as the one group of a table."""
    return (Group("", tuple(tuple(Cell(text) for text in row) for row in rows)),)
