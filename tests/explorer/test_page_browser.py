"""Facts about the page in a real browser: Chromium without a window, if it is installed."""

import re

import numpy as np
import pytest
from problems.chromium import Browser, find_chromium

from bbalpha.explorer.page import write_page

NEED_NAMES = {
    "button",
    "combobox",
    "slider",
    "link",
    "img",
    "region",
    "table",
    "DisclosureTriangle",
}
LEAST_CONTRAST = 4.5  # of texts, WCAG 2.2 AA
COLORS = """(() => {
  const parse = color => color.match(/[\\d.]+/g).map(Number);
  const behind = node => {
    for (; node; node = node.parentElement) {
      const color = parse(getComputedStyle(node).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
  };
  const texts = [...document.querySelectorAll('body *')].filter(node =>
    !['SCRIPT', 'STYLE', 'OPTION', 'NOSCRIPT'].includes(node.tagName) &&
    node.getClientRects().length &&
    [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim()));
  return texts.map(node => {
    const style = getComputedStyle(node);
    const ink = node.namespaceURI.endsWith('svg') ? style.fill : style.color;
    return [node.textContent.slice(0, 30), parse(ink).slice(0, 3), behind(node).slice(0, 3)];
  });
})()"""
# Every mark that follows α: curves, rows, calibration and histogram.
DRAWN = """[...document.querySelectorAll('.plot')].map(panel => [panel.id,
  [...panel.querySelectorAll('svg[role=img] :is(path, circle, rect)')].map(shape =>
    ['d', 'cx', 'cy', 'y', 'height', 'class'].map(name => shape.getAttribute(name))).join()])"""


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    program = find_chromium()
    if program is None:
        pytest.skip("Chromium is not installed; `make test` installs it with apt if it may")
    browser = Browser(program, tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def price_page(tmp_path_factory, price_data):
    path = tmp_path_factory.mktemp("pages") / "price.html"
    write_page(path, with_another_calibration(price_data))
    return path


@pytest.fixture(scope="session")
def class_page(tmp_path_factory, class_data):
    path = tmp_path_factory.mktemp("pages") / "class.html"
    write_page(path, with_another_calibration(class_data))
    return path


@pytest.fixture(scope="session")
def stacked_page(tmp_path_factory, stacked_data):
    path = tmp_path_factory.mktemp("pages") / "stacked.html"
    write_page(path, with_another_calibration(stacked_data))
    return path


def with_another_calibration(data):
    """The data with a calibration at the lowest α that quick fits do not have."""
    found = data["fits"][0]["calibration"]
    other = {"histogram": np.roll(found["histogram"], 1)}
    if "covered" in found:
        other["covered"] = found["covered"] ** 2
    else:
        other["reliability"] = [{"confidence": 0.4, "accuracy": 0.9, "rows": 10}]
    first = data["fits"][0] | {"calibration": found | other}
    return data | {"fits": [first, *data["fits"][1:]]}


@pytest.fixture(params=["price_page", "class_page", "stacked_page"])
def any_page(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["price_page", "class_page"])
def either_page(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_overflows_fails_or_leaves_the_page(browser, any_page, width):
    browser.open(any_page, width, dark=width == 360)
    assert browser.run("document.documentElement.scrollWidth") == width
    beyond = browser.run(
        "[...document.querySelectorAll('svg[role=img]')].flatMap(svg => "
        "[...svg.querySelectorAll('text')].filter(text => { const box = text.getBBox(); "
        "return box.x < -1 || box.x + box.width > svg.clientWidth + 1; })"
        ".map(text => text.textContent))"
    )
    assert beyond == []
    for step in range(browser.run("data.alphas.length")):
        browser.run(f"page.show({step})")
    browser.run("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    browser.settle()
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.problems() == []
    assert browser.requests() == [any_page.as_uri()]


def test_a_new_width_draws_the_plots_anew(browser, price_page):
    browser.open(price_page, 1280)
    browser.resize(500)
    browser.settle()
    widths = browser.run(
        "[...document.querySelectorAll('svg[role=img]')].map(svg => "
        "Number(svg.getAttribute('width')) - svg.parentElement.clientWidth)"
    )
    assert all(-1 <= width <= 0 for width in widths)


def test_the_slider_moves_every_plot(browser, either_page):
    browser.open(either_page)
    slider = "document.getElementById('alpha')"
    text = f"{slider}.getAttribute('aria-valuetext')"
    status = "document.getElementById('status').textContent"
    assert browser.run(text) == "α = ½, chosen"
    browser.run(f"{slider}.focus()")
    browser.press("ArrowLeft")
    assert browser.run(text) == "α = ¼"
    browser.press("End")
    browser.settle()
    said, drawn = browser.run(status), dict(browser.run(DRAWN))
    assert browser.run(text) == "α = 1"
    assert said.startswith("α = 1: log-likelihood")
    browser.press("Home")
    browser.settle()
    moved = dict(browser.run(DRAWN))
    assert browser.run(status) != said
    assert [name for name in drawn if drawn[name] == moved[name]] == []
    assert browser.run("document.querySelector('#scores tr.now th').textContent") == "−1"


def test_a_mixture_has_an_end_of_the_slider_and_of_the_scores_to_itself(browser, stacked_page):
    browser.open(stacked_page)
    slider = "document.getElementById('alpha')"
    text = f"{slider}.getAttribute('aria-valuetext')"
    assert browser.run(text) == "mixture, chosen"
    ticks = "[...document.querySelectorAll('#ticks span')].map(each => each.textContent)"
    assert browser.run(ticks) == ["−1", "0", "¼", "½", "1", "mixturechosen"]
    said = browser.run("document.getElementById('status').textContent")
    assert said.startswith("Mixture (chosen): log-likelihood")
    drawing = "#score svg[role=img]"
    dots = f"[...document.querySelectorAll('{drawing} circle.score')]"
    places = f"{dots}.map(each => each.cx.baseVal.value)"
    found = browser.run(places)
    assert found == sorted(found)
    assert len(set(found)) == 6
    marked = f"document.querySelector('{drawing} circle.chosen').cx.baseVal.value"
    assert browser.run(marked) == found[-1]
    line = browser.run(f"document.querySelector('{drawing} path.line').getAttribute('d')")
    assert line.count("L") == 4  # through five powers
    label = "document.querySelector('#along svg').getAttribute('aria-label')"
    assert browser.run(label).startswith("Along size for the mixture: predicted price from")
    drawn = dict(browser.run(DRAWN))
    browser.run(f"{slider}.focus()")
    browser.press("ArrowLeft")
    browser.press("ArrowLeft")
    browser.settle()
    assert browser.run(text) == "α = ½"
    half = dict(browser.run(DRAWN))
    assert drawn["along"] != half["along"]
    last = browser.run("document.querySelector('#scores tbody tr:last-child th').textContent")
    assert last == "mixture (chosen)"


def test_the_status_says_the_scores(browser, price_page, price_data):
    browser.open(price_page)
    scores = price_data["fits"][price_data["chosen"]]["scores"]
    said = browser.run("document.getElementById('status').textContent")
    assert f"log-likelihood −{abs(scores['log_likelihood']):.3f} per left-out row" in said
    assert f"cover {100 * scores['coverage_90']:.1f}\u00a0%" in said
    assert (
        browser.run("document.querySelector('#score .finding').textContent") == price_data["reason"]
    )


def test_the_keyboard_reaches_everything(browser, price_page):
    browser.open(price_page)
    reached = []
    for _ in range(40):
        browser.press("Tab")
        reached.append(
            browser.run("(e => e.id || e.closest('[id]')?.id || e.tagName)(document.activeElement)")
        )
    assert reached[:3] == ["A", "alpha", "along"]
    assert {"along", "calibration", "histogram", "scores", "row-table"} <= set(reached)


def test_rows_answer_to_the_keyboard(browser, price_page):
    browser.open(price_page)
    row = "document.activeElement.dataset.row"
    marks = "[...document.querySelectorAll('.mark')].map(mark => mark.getAttribute('cy'))"
    browser.run("document.querySelector('#row-table tbody tr').focus()")
    first = browser.run(marks)
    browser.press("ArrowDown")
    assert browser.run(row) == "1"
    second = browser.run(marks)
    along, _, predicted, doubt, *_ = range(6)
    for plot in (along, predicted, doubt):
        assert float(second[plot]) > 0
        assert second[plot] != first[plot]
    browser.press("Enter", "\r")
    assert browser.run("document.querySelector('tr.pinned').getAttribute('aria-current')") == "true"
    browser.run("document.activeElement.blur()")
    assert browser.run(marks) == second
    browser.run("document.querySelector('tr.pinned').focus()")
    browser.press("Escape")
    browser.press("End")
    assert browser.run(row) == "59"
    assert browser.run("document.querySelector('tr.pinned')") is None


def test_pointing_at_a_dot_finds_its_row(browser, price_page):
    browser.open(price_page)
    place = browser.run(
        "(() => { const dot = document.querySelectorAll('#predicted circle.said')[7];"
        "dot.scrollIntoView({block: 'center'}); const box = dot.getBoundingClientRect();"
        "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
    )
    browser.point(*place)
    nearest = browser.run("document.querySelector('tr.at').dataset.row")
    x = browser.run(
        f"document.querySelectorAll('#predicted circle.said')[{nearest}].cx.baseVal.value"
    )
    assert browser.run(
        "document.querySelector('#predicted .mark').cx.baseVal.value"
    ) == pytest.approx(x, abs=0.1)
    assert re.match(
        r"Row \d+\nobserved ", browser.run("document.getElementById('tip').textContent")
    )
    browser.point(*place, click=True)
    browser.point(2, 2)
    assert browser.run("document.getElementById('tip').hidden") is True
    assert browser.run("document.querySelector('tr.pinned').dataset.row") == nearest


def test_headings_sort_the_rows(browser, class_page, class_data):
    browser.open(class_page)
    heading = "[...document.querySelectorAll('#row-table th button')].find(b => b.textContent === "
    order = (
        "[...document.querySelectorAll('#row-table tbody tr')].map(tr => Number(tr.dataset.row))"
    )
    doubt = class_data["fits"][class_data["chosen"]]["rows"]["doubt"]
    browser.run(f"{heading}'doubt').click()")
    sorted_rows = browser.run(order)
    assert [doubt[row] for row in sorted_rows] == pytest.approx(sorted(doubt), abs=1e-4)
    assert browser.run(f"{heading}'doubt').parentElement.ariaSort") == "ascending"
    browser.run(f"{heading}'doubt').click()")
    assert [doubt[row] for row in browser.run(order)] == pytest.approx(
        sorted(doubt, reverse=True), abs=1e-4
    )
    browser.run(f"{heading}'observed target').click()")
    assert browser.run("document.querySelectorAll('[aria-sort]').length") == 1
    observed = [class_data["rows"]["observed"][row] for row in browser.run(order)]
    assert observed == sorted(observed)


def test_the_column_is_chosen_and_its_numbers_are_a_table(browser, price_page, price_data):
    browser.open(price_page)
    browser.run(
        "(s => { s.value = 1; s.dispatchEvent(new Event('change')); })"
        "(document.querySelector('#along select'));"
        "document.querySelector('#along details').open = true"
    )
    browser.settle()
    rows = browser.run(
        "[...document.querySelectorAll('#along tbody tr')].map(tr => "
        "[...tr.children].map(cell => cell.textContent))"
    )
    curve = price_data["fits"][price_data["chosen"]]["curves"][1]
    assert [row[0] for row in rows] == list(price_data["columns"][1]["labels"])
    found = [float(row[1].replace(",", "")) for row in rows]
    assert found == pytest.approx(curve["mean"], rel=1e-3)


def test_hostile_texts_are_texts(browser, price_page):
    browser.open(price_page)
    assert browser.run("document.querySelector('#along select').textContent").count("<script>") == 1
    assert browser.run("document.querySelectorAll('script').length") == 2
    assert browser.run("document.querySelectorAll('main b, main img, main script').length") == 0
    cells = browser.run("document.querySelector('#row-table').textContent")
    assert "</script><!--" in cells
    assert "<b>x</b>" in cells


def test_everything_has_a_name(browser, any_page):
    browser.open(any_page)
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    shown = [node for node in nodes if not node["ignored"]]
    roles = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in shown]
    assert [role for role, name in roles if role in NEED_NAMES and not name.strip()] == []
    assert {"slider", "combobox", "image", "status", "table", "main"} <= {role for role, _ in roles}
    assert ("slider", "Power α") in roles
    images = [name for role, name in roles if role == "image"]
    assert len(set(images)) == len(images) >= 5


@pytest.mark.parametrize("dark", [False, True])
def test_texts_can_be_read(browser, any_page, dark):
    browser.open(any_page, dark=dark)
    weak = [
        (text, contrast(ink, paper))
        for text, ink, paper in browser.run(COLORS)
        if contrast(ink, paper) < LEAST_CONTRAST
    ]
    assert weak == []


def contrast(ink, paper):
    """The ratio of luminances that WCAG defines."""
    light, dark = sorted((luminance(ink), luminance(paper)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(color):
    parts = [part / 255 for part in color]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_contrast_is_that_of_the_definition():
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast((119, 119, 119), (255, 255, 255)) == pytest.approx(4.48, abs=0.01)
