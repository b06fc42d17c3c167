"""The picture of docs/approximations.md, docs/images/family.svg: how the methods are related.

The drawing has its own white ground, so that it reads on light and dark pages, and is narrow enough
for a phone.
"""

from html import escape
from pathlib import Path

PATH = Path(__file__).parents[1] / "docs" / "images" / "family.svg"
WIDTH, HEIGHT = 560, 555
BLUE, GREEN, ORANGE = "#0072B2", "#00795C", "#B84A00"  # as in pictures.py, darker for small text
LINE = 20  # between lines of text

# Center, width, color, name, and the lines below it.
BOXES = {
    "power EP": (280, 50, 330, BLUE, "power EP", "one site per datum, local α-divergence"),
    "double loop": (82, 190, 144, BLUE, "double-loop EP", "same answer,|energy falls"),
    "EP": (214, 190, 90, BLUE, "EP", "α = 1"),
    "VMP": (328, 190, 108, BLUE, "VMP", "α → 0,|variational"),
    "shared": (470, 190, 150, "#666", "share sites", "instead of one|per datum"),
    "SEP": (96, 345, 172, GREEN, "SEP, averaged EP", "one site for all,|average the sites"),
    "SNEP": (276, 345, 160, GREEN, "SNEP", "one site per worker,|natural gradients"),
    "BB-α": (460, 345, 180, ORANGE, "BB-α (bb.fit)", "one site for all,|one energy, any model"),
    "VB": (322, 500, 120, ORANGE, "α → 0", "variational|Bayes"),
    "fixed": (470, 500, 150, ORANGE, "fixed_point", "same answer by|averaged moments"),
}
ARROWS = (
    *(("power EP", name) for name in ("double loop", "EP", "VMP", "shared")),
    *(("shared", name) for name in ("SEP", "SNEP", "BB-α")),
    *(("BB-α", name) for name in ("VB", "fixed")),
)


def height(box):
    return 34 + LINE * len(box[5].split("|"))


def drawn_box(box):
    x, y, width, color, name, below = box
    tall = height(box)
    parts = [
        f'<rect x="{x - width / 2}" y="{y - tall / 2}" width="{width}" height="{tall}" rx="9" '
        f'fill="#fff" stroke="{color}" stroke-width="2"/>',
        f'<text x="{x}" y="{y - tall / 2 + 22}" class="name" style="fill:{color}">{name}</text>',
    ]
    for number, line in enumerate(below.split("|")):
        place = y - tall / 2 + 22 + LINE * (number + 1)
        parts.append(f'<text x="{x}" y="{place}" class="small">{escape(line)}</text>')
    return parts


def drawn_arrow(start, end):
    a, b = BOXES[start], BOXES[end]
    x, y = _leaving(a, b), a[1] + height(a) / 2
    to_x, to_y = b[0], b[1] - height(b) / 2 - 2
    middle = (y + to_y) / 2
    path = f"M{x:g} {y:g} C{x:g} {middle:g}, {to_x:g} {middle:g}, {to_x:g} {to_y:g}"
    return f'<path d="{path}" marker-end="url(#tip)"/>'


def _leaving(a, b):
    """Where an arrow leaves its box: toward the other, but inside of its width."""
    most = 0.4 * a[2]
    return a[0] + max(-most, min(most, b[0] - a[0]))


def picture():
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-label="Power EP is the root. With one site per datum it gives EP, VMP and '
        'double-loop EP; with shared sites SEP, SNEP and BB-α.">',
        "<style>text{font:16px system-ui,sans-serif;text-anchor:middle;fill:#222}"
        ".name{font-weight:bold}.small{font-size:14px}"
        "path{fill:none;stroke:#888;stroke-width:1.6}</style>",
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0 L8 4 L0 8 z" style="fill:#888;stroke:none"/></marker>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#fff"/>',
    ]
    lines += [drawn_arrow(*arrow) for arrow in ARROWS]
    for box in BOXES.values():
        lines += drawn_box(box)
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    PATH.write_text(picture())
    print(f"The picture is in {PATH}")
