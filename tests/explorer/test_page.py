"""Facts about the page as a file: it is whole, safe, bounded and knows its own kind."""

import base64
import hashlib
import json
import re
from importlib.resources import files

import numpy as np
import pytest

from bbalpha.explorer import page

LINES = "\u2028\u2029"


def embedded(text):
    """The data that a page holds, as its program reads them."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(found)


def test_texts_survive_in_json_and_cannot_end_it():
    texts = ["</script>", "<!--", "<script>", "]]>", f"a{LINES}b", "&amp;", "α"]
    written = page.as_json({"rows": {"id": texts}})
    assert not set("<>&" + LINES) & set(written)
    assert json.loads(written) == {"rows": {"id": texts}}


def test_numbers_are_rounded_and_what_is_no_number_is_null():
    data = {"fits": [np.array([1 / 3, np.nan, np.inf, -0.0]), np.int64(7), True, None, 1e30]}
    assert json.loads(page.as_json(data)) == {
        "fits": [[0.33333, None, None, 0], 7, True, None, 1e30]
    }
    assert json.loads(page.as_json({"rows": {"cell0": [1234567.25]}}))["rows"]["cell0"] == [
        1234567.25
    ]


def test_the_page_holds_the_data_and_nothing_of_the_table_as_markup(price_data):
    text = page.page(price_data)
    data = embedded(text)
    assert data["columns"][1]["name"] == "<script>alert(1)</script>"
    assert any("</script><!--" in (cell or "") for cell in data["rows"]["cell1"])
    assert text.count("alert(1)") == 1
    assert re.findall(r"<script>", text) == ["<script>"]
    assert text.count("<!--") == 0


def test_the_policy_allows_the_pages_own_program_and_nothing_else(price_data):
    text = page.page(price_data)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    for tag, name in (("style", "style-src"), ("script", "script-src")):
        (inner,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.S)
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")


def test_the_page_names_no_address(price_data):
    addresses = set(re.findall(r"https?://[^\"' ]*", page.page(price_data)))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of a kind of element


def test_a_page_is_known_by_its_head(tmp_path, price_data):
    path = tmp_path / "page.html"
    page.write_page(path, price_data)
    assert page.is_page(path)
    page.check_replaceable(path)
    page.check_replaceable(tmp_path / "new.html")
    path.write_text("<!doctype html><p>mine</p>")
    assert not page.is_page(path)
    with pytest.raises(ValueError, match="path must not be a file that is not a page of bbalpha"):
        page.check_replaceable(path)


def test_a_page_of_long_cells_has_fewer_rows_but_at_most_two_megabytes(price_data):
    many, cells = 500, ["<" * 60] * 500
    rows = {"id": list(range(many)), "observed": [1.0] * many}
    rows |= {f"cell{number}": cells for number in range(12)}
    fits = [fit | {"rows": {"predicted": list(range(many))}} for fit in price_data["fits"]]
    text = page.bounded_page(price_data | {"rows": rows, "fits": fits})
    data = embedded(text)
    assert len(text.encode()) <= page.MOST_BYTES
    assert len(data["rows"]["id"]) == len(data["fits"][0]["rows"]["predicted"]) == 250
    assert (data["rows"]["id"][0], data["rows"]["id"][-1]) == (0, 499)


def test_the_parts_of_the_page_come_with_the_package():
    folder = files("bbalpha.explorer")
    for name in ("page.html", "style.css", *page.SCRIPTS):
        assert (folder / name).is_file()
    program = "".join((folder / name).read_text() for name in page.SCRIPTS)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", program)
