"""Text from files is shown without whatever could act on a terminal."""

import json

import pytest

from bbalpha.files.wording import LONGEST, one_line, printable, printable_json

ACTIVE = ["\x1b[2J", "\x9b2J", "\x07", "\x7f", "\u202efed", "\u2066x", "\u200b", "\ud800", "\r"]


@pytest.mark.parametrize("text", ACTIVE, ids=ascii)
def test_nothing_active_is_left(text):
    shown = printable(f"α {text}\nβ")
    assert shown.replace("\n", "").isprintable()
    assert (shown[:2], shown[-2:]) == ("α ", "\nβ")
    assert one_line(f"α\n{text}").isprintable()


def test_plain_text_stays_as_it_is():
    assert printable("α = ½, naïve 😀") == "α = ½, naïve 😀"
    assert one_line("a\nb") == "a b"


def test_long_text_is_cut():
    assert one_line("x" * (LONGEST + 1)) == "x" * LONGEST + " …"
    assert one_line(10**300)[:2] == "10"


@pytest.mark.parametrize("text", [*ACTIVE[:-2], "\U000e0001", "é😀"], ids=ascii)
def test_json_means_the_same_and_is_printable(text):
    written = printable_json(json.dumps({"a": text}, ensure_ascii=False, indent=2))
    assert json.loads(written) == {"a": text}
    assert written.replace("\n", "").isprintable()
