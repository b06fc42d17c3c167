"""A Python-Markdown extension for the site, so that pages and docstrings look as on GitHub.

- Markdown inside of <details> is Markdown.
- A doctest in a docstring is code, with its output.
"""

import re
from collections.abc import Iterator

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

BEFORE_FENCES = 26  # the priority of pymdownx.superfences is 25
FENCE = re.compile(r" *(```+|~~~+)")


class AsOnGitHub(Preprocessor):
    """Marks what Python-Markdown would otherwise leave as raw HTML or take for quotations."""

    def run(self, lines: list[str]) -> list[str]:
        """The lines with attributes and fences added, outside of blocks that are fenced already."""
        return list(_marked(iter(lines)))


class SiteMarkdown(Extension):
    """The extension `docs.site_markdown` of zensical.toml."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register the preprocessor."""
        md.preprocessors.register(AsOnGitHub(md), "as_on_github", BEFORE_FENCES)


def makeExtension(**settings: object) -> SiteMarkdown:
    """What Python-Markdown calls to load the extension."""
    return SiteMarkdown(**settings)


def _marked(lines: Iterator[str]) -> Iterator[str]:
    closing = None
    for line in lines:
        if closing is not None:
            closing = None if line.strip() == closing else closing
            yield line
        elif fence := FENCE.match(line):
            closing = fence[1]
            yield line
        elif line.startswith(">>> "):
            yield from ("```pycon", line, *_until_blank(lines), "```", "")
        else:
            yield line.replace("<details>", '<details markdown="1">')


def _until_blank(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if not line.strip():
            return
        yield line
