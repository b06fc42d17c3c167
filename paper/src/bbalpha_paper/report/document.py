"""A document: the content of a page as data, before it becomes HTML or Markdown.

Text is plain, except for `code` between backticks. A figure consists of panels, side by side where
there is room and stacked where there is none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: Its text.
        kind: "" for our numbers, "published" for other people's, "beyond" for large differences.
    """

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Group:
    """Rows of a table that belong together, under a label unless it is empty."""

    label: str
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table, whose first column names its rows.

    Attributes:
        caption: What it shows; may be empty.
        header: Names of its columns.
        groups: Its rows.
        num_text_columns: How many of the first columns hold text.
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
        label: What the line stands for.
        color: Its color on a light page.
        dashed: Whether the line is dashed.
    """

    label: str
    color: str
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """A part of a figure with its own axes.

    Attributes:
        title: What it shows.
        draw: Draws it on matplotlib's axes.
    """

    title: str
    draw: Callable[[Any], None]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Panels with a common legend; the name, unique on the page, also names its file."""

    name: str
    caption: str
    panels: tuple[Panel, ...]
    legend: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Details:
    """Blocks for readers who want to know more, folded up at first."""

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
        outcome: The result, in a sentence or two.
        blocks: Everything else.
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
        introduction: What the page shows.
        facts: Facts about all sections, by name.
        overview: The sections at a glance.
        sections: In the order of the paper.
    """

    title: str
    introduction: tuple[Paragraph, ...]
    facts: tuple[tuple[str, str], ...]
    overview: Table
    sections: tuple[Section, ...]


def plain_rows(*rows: tuple[str, ...]) -> tuple[Group, ...]:
    """Rows of text as the only group of a table."""
    return (Group("", tuple(tuple(Cell(text) for text in row) for row in rows)),)
