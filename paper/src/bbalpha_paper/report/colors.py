"""Colors: every α up to ±10 has its own, the same in all figures, lighter on a dark page.

Negative powers are blue, VB is green, positive powers run from orange to red: hues of Okabe and Ito
that color-blind readers can tell apart, interpolated between the anchors.
"""

from itertools import pairwise
from typing import NamedTuple

INK, MUTED, RULE, FILL = "#1f2328", "#656d76", "#d4d8dd", "#c9cfd6"
NEUTRAL = {INK: "ink", MUTED: "muted", RULE: "rule", FILL: "fill"}  # names in the style sheet
TINY = 1e-3  # powers closer to 0 than this have a color of their own


class Shades(NamedTuple):
    """A color on a light page and on a dark one."""

    light: str
    dark: str


ANCHORS = {
    -10.0: Shades("#332288", "#a99cf0"),
    -1.0: Shades("#0072b2", "#4a9fe0"),
    0.0: Shades("#007a5a", "#2fc99c"),
    0.5: Shades("#b87a00", "#f0b429"),
    1.0: Shades("#d55e00", "#ff8a4a"),
    2.0: Shades("#882255", "#e87fb0"),
    10.0: Shades("#3d1226", "#f7c6dc"),
}
NEAR_ZERO = Shades("#4ea3d8", "#b9e3ff")


def alpha_shades(alpha: float) -> Shades:
    """The color of a power.

    >>> from bbalpha_paper.report.colors import alpha_shades
    >>> alpha_shades(1.0).light
    '#d55e00'
    """
    if is_dashed(alpha):
        return NEAR_ZERO
    clipped = min(max(alpha, min(ANCHORS)), max(ANCHORS))
    for low, high in pairwise(ANCHORS):
        if clipped <= high:
            part = (clipped - low) / (high - low)
            ends = zip(ANCHORS[low], ANCHORS[high], strict=True)
            return Shades(*(_between(start, end, part) for start, end in ends))
    raise AssertionError  # the last anchor is the largest


def alpha_color(alpha: float) -> str:
    """The color of a power on a light page."""
    return alpha_shades(alpha).light


def is_dashed(alpha: float) -> bool:
    """Whether the line of a power is dashed, because it would hide the line of VB."""
    return 0 < abs(alpha) < TINY


def _between(start: str, end: str, part: float) -> str:
    channels = zip(bytes.fromhex(start[1:]), bytes.fromhex(end[1:]), strict=True)
    return "#" + bytes(round((1 - part) * low + part * high) for low, high in channels).hex()
