"""Drawing: panels of a figure as SVG, each by itself or all in one picture.

Text stays text and takes the font of the page. The same data always give the same drawing.
"""

import io
import re
from typing import Any

import matplotlib
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from bbalpha_paper.report.colors import INK, MUTED, RULE
from bbalpha_paper.report.document import Figure, Key, Panel

WIDTH, HEIGHT = 4.2, 2.9  # of a panel, in inches
NUM_COLUMNS = 2  # of panels in one picture
STYLE: Any = {
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 10,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "font.size": 10,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
}


def panel_svg(panel: Panel, name: str) -> str:
    """One panel on a transparent background, for a page with other drawings."""
    svg = _drawn((panel,), (), name, 1, "none")
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    for size in ("height", "width"):
        svg = re.sub(rf'(<svg[^>]*?) {size}="[^"]*"', r"\1", svg, count=1)
    return _own_names(svg, name)


def figure_svg(figure: Figure) -> str:
    """All panels and the legend on white, as a separate file."""
    columns = min(NUM_COLUMNS, len(figure.panels))
    return _drawn(figure.panels, figure.legend, figure.name, columns, "white")


def _drawn(
    panels: tuple[Panel, ...], legend: tuple[Key, ...], name: str, columns: int, ground: str
) -> str:
    num_rows = -(-len(panels) // columns)
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}):
        size = (WIDTH * columns, HEIGHT * num_rows + (0.35 if legend else 0.0))
        canvas = Canvas(figsize=size, layout="constrained", facecolor=ground)
        axes = canvas.subplots(num_rows, columns, squeeze=False).ravel()
        for axis, panel in zip(axes, panels, strict=False):
            axis.set_title(panel.title)
            panel.draw(axis)
        for axis in axes[len(panels) :]:
            axis.set_axis_off()
        if legend:
            lines = [_line(key) for key in legend]
            canvas.legend(handles=lines, loc="outside upper center", ncols=len(lines))
        buffer = io.StringIO()
        canvas.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def _line(key: Key) -> Any:
    style = "--" if key.dashed else "-"
    return Line2D([], [], color=key.color, linestyle=style, linewidth=2, label=key.label)


def _own_names(svg: str, name: str) -> str:
    """The drawing without unused ids, and with the others made unique on the page."""
    used = set(re.findall(r"#([\w-]+)[\")]", svg))

    def renamed(match: re.Match) -> str:
        return f' id="{name}-{match[1]}"' if match[1] in used else ""

    svg = re.sub(r" id=\"([\w.-]+)\"", renamed, svg)
    return re.sub(r"(href=\"|url\()#", rf"\1#{name}-", svg)
