"""Both kinds of page: complete, well formed, and self-contained."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from bbalpha_paper.experiments import NAMES
from bbalpha_paper.report.colors import alpha_shades
from bbalpha_paper.report.document import Figure
from bbalpha_paper.report.drawing import figure_svg
from bbalpha_paper.report.html import html_page
from bbalpha_paper.report.markdown import markdown_page
from bbalpha_paper.report.page import page_of
from bbalpha_paper.report.palette import Palette
from bbalpha_paper.report.words import time

VOID = {"meta", "br", "hr", "img", "link"}
ALPHAS = (1.0, 0.5, 1e-6, 0.0)


@pytest.fixture(scope="module")
def all_rows(rows):
    return [entry for name in NAMES for entry in rows[name]]


@pytest.fixture(scope="module")
def page(all_rows):
    return page_of(all_rows, "results")


@pytest.fixture(scope="module")
def html(page, all_rows):
    return html_page(page, Palette.of({entry.alpha for entry in all_rows}))


class Reader(HTMLParser):
    """Collects ids and links, and checks that every element is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.handle_startendtag(tag, attrs)

    def handle_startendtag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name.endswith("href") or name == "src":
                self.links.append(value)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_has_every_section_in_the_order_of_the_paper(page, html, all_rows):
    assert tuple(section.name for section in page.sections) == NAMES
    assert re.findall(r'<section id="([\w-]+)"', html) == list(NAMES)
    facts = dict(page.facts)
    assert facts["bbalpha"] == "0.1.0"
    assert facts["scale"] == "paper"
    assert facts["runs"] == str(len(all_rows))
    assert facts["time of all runs"] == time(2.0 * len(all_rows))


def test_the_html_is_well_formed_and_needs_nothing_else(html):
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open
    assert len(set(reader.ids)) == len(reader.ids)
    assert all(link.startswith("#") and link[1:] in reader.ids for link in reader.links)
    outside = set(re.findall(r"https?://[^\"' )]+", html))
    assert outside <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names only
    assert not re.search(r"<script|<link|@import|url\((?!#)", html)
    assert set(re.findall(r"url\(#([\w-]+)\)", html)) <= set(reader.ids)


def test_drawings_take_their_colors_from_the_page(html):
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    drawings = "".join(re.findall(r"<svg.*?</svg>", html, re.DOTALL))
    used = set(re.findall(r"var\((--[\w-]+)\)", drawings))
    assert {f"--color-{alpha_shades(alpha).light[1:]}" for alpha in ALPHAS} <= used
    for name in used:
        assert style.count(f"{name}: #") == 2  # light and dark
    assert not re.findall(r"(?:fill|stroke): #", drawings)


def test_text_in_rows_cannot_become_markup(rows):
    some = [replace(r, configuration="<b>&", dataset="<i>") for r in rows["probit"]]
    some += [replace(r, dataset="<i>") for r in rows["probit"]]
    made = page_of(some, "results")
    html = html_page(made, Palette.of(ALPHAS))
    assert "<b>" not in html
    assert "<i>" not in html
    assert "&lt;b&gt;&amp;" in html
    assert "<b>" not in markdown_page(made, "files").text


@pytest.fixture(scope="module")
def markdown(page):
    return markdown_page(page, "report_files")


def test_markdown_tables_are_regular_and_links_lead_to_drawings(page, markdown):
    text, drawings = markdown
    links = re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
    assert sorted(links) == sorted(f"report_files/{name}" for name in drawings)
    num_figures = sum(isinstance(b, Figure) for s in page.sections for b in s.blocks)
    assert len(links) == num_figures
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1
    for name in re.findall(r"\]\(#([\w-]+)\)", text):
        assert f'<a id="{name}"></a>' in text


def test_drawings_are_opaque_and_the_same_every_time(page, markdown):
    (figure,) = (block for block in page.sections[0].blocks if isinstance(block, Figure))
    assert figure_svg(figure) == markdown.drawings["divergence.svg"]
    assert all("fill: #ffffff" in drawing for drawing in markdown.drawings.values())
