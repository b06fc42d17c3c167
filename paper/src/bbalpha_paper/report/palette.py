"""The palette of a page: colors of drawings, by names that a light and a dark page fill."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bbalpha_paper.report.colors import NEUTRAL, alpha_shades


@dataclass(frozen=True)
class Palette:
    """Colors of a drawing on a light page, and on a dark one, by that on the light one."""

    dark: Mapping[str, str]

    @classmethod
    def of(cls, alphas: Iterable[float]) -> "Palette":
        """The colors of these powers."""
        return cls(dict(alpha_shades(alpha) for alpha in alphas))

    def css(self) -> str:
        """The colors as variables."""
        light = " ".join(f"{_name(color)}: {color};" for color in self.dark)
        dark = " ".join(f"{_name(color)}: {shade};" for color, shade in self.dark.items())
        return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"

    def variable(self, color: str) -> str:
        """What stands for a color on a page."""
        if color in NEUTRAL:
            return f"var(--{NEUTRAL[color]})"
        return f"var({_name(color)})" if color in self.dark else color

    def applied(self, svg: str) -> str:
        """A drawing with variables in place of colors."""
        return re.sub(r"#[0-9a-f]{6}\b", lambda match: self.variable(match[0]), svg)


def _name(color: str) -> str:
    return f"--color-{color[1:]}"
