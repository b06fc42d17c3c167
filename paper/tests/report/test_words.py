"""Numbers, powers and colors as a reader sees them."""

from bbalpha_paper.report.colors import alpha_shades
from bbalpha_paper.report.words import (
    alpha_name,
    number,
    setting_name,
    setting_text,
    small_number,
    time,
    upper_bound,
)


def test_powers_are_named_as_in_the_paper():
    names = [alpha_name(alpha) for alpha in (1.0, 0.5, 1e-6, 0.0, -1.0, 1.25)]
    assert names == ["1", "0.5", "10⁻⁶", "VB (α = 0)", "−1", "1.25"]


def test_numbers_have_a_true_minus_sign_and_no_negative_zero():
    assert number(-1.25, 2) == "−1.25"
    assert number(-0.001, 2, signed=True) == "0.00"
    assert number(0.126, 2, signed=True) == "+0.13"
    assert number(None, 2) == "—"
    assert (small_number(0.0), small_number(2.4e-5)) == ("0", "2 · 10⁻⁵")
    assert [upper_bound(value) for value in (0.0, 1.157e-8, 9.4e-3, 2e-4)] == [
        *("0", "2 · 10⁻⁸", "1 · 10⁻²", "2 · 10⁻⁴")
    ]
    assert setting_text({"a": [[1, -2.5], [0, 4]], "b": True}) == "a: (1, −2.5), (0, 4); b: yes"
    assert time(59.0) == "59 s"
    assert time(200_000.0) == "2 d 7 h"


def test_settings_have_names_in_words():
    assert setting_name("num_samples") == "draws K in training"
    assert setting_name("data_seed") == "data seed"


def test_every_alpha_has_a_color_of_its_own():
    colors = [alpha_shades(alpha) for alpha in (1.0, 0.5, 1e-6, 0.0, -1.0, 2.0, -0.5, 0.25, 1.5)]
    assert len(set(colors)) == len(colors)
    assert alpha_shades(1e9) == alpha_shades(10.0)
