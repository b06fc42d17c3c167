"""The palette of a page: colors of drawings as CSS variables, for a light and a dark page."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bbalpha_paper.report.colors import NEUTRAL, alpha_shades


@dataclass(frozen=True)
class Palette:
    """The colors of drawings: each color on a light page mapped to the one on a dark page."""

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
        """The CSS variable of a color."""
        if color in NEUTRAL:
            return f"var(--{NEUTRAL[color]})"
        return f"var({_name(color)})" if color in self.dark else color

    def applied(self, svg: str) -> str:
        """A drawing with variables in place of colors."""
        return re.sub(r"#[0-9a-f]{6}\b", lambda match: self.variable(match[0]), svg)


def _name(color: str) -> str:
    return f"--color-{color[1:]}"
