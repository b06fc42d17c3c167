"""Facts about the sentences of a page."""

from types import SimpleNamespace

import numpy as np
import pytest

from bbalpha.explorer.words import (
    alpha_in_words,
    mixture_in_words,
    notes_in_words,
    reason_in_words,
)

ZEROS = np.zeros(100)
NOISE = np.random.default_rng(0).normal(size=100)
SET = SimpleNamespace(alpha_curve_=None, alpha=0.5)


@pytest.mark.parametrize(
    ("alpha", "words"), [(-1.0, "−1"), (0.0, "0"), (0.25, "¼"), (0.5, "½"), (-0.3, "−0.3")]
)
def test_alpha_is_written_as_people_write_it(alpha, words):
    assert alpha_in_words(alpha) == words


def test_the_best_alpha_is_said_to_be():
    reason = reason_in_words(SET, 0.5, {0.0: ZEROS - 1, 0.5: ZEROS})
    assert reason == (
        "α = ½ was set when the model was fitted. Of the values compared, it predicts rows that "
        "are left out best."
    )


def test_a_difference_within_its_standard_error_is_no_difference():
    gain = NOISE - NOISE.mean() + 0.05  # standard error 0.1
    reason = reason_in_words(SET, 0.5, {0.0: gain, 0.5: ZEROS})
    assert "it predicts rows that are left out as well as the best value, α = 0: the" in reason


def test_a_difference_within_the_error_of_the_approximation_is_no_difference():
    reason = reason_in_words(SET, 0.5, {0.0: NOISE + 0.049, 0.5: NOISE})
    assert "the scores are approximations, off by about 0.05." in reason


def test_a_better_alpha_is_named_with_the_paired_difference():
    pairs = np.tile([0.2, 0.4], 50)  # standard error 0.1/√99
    reason = reason_in_words(SET, 0.5, {1.0: NOISE + pairs, 0.5: NOISE})
    assert reason.endswith(
        "α = 1 predicts rows that are left out better, by 0.3 ± 0.01 nats per row."
    )


def test_a_mixture_is_named_and_compared_like_a_power():
    shares = {"alphas": (0.0, 0.5, 1.0), "weights": (0.78, 0.22, 0.0), "reason": "It is."}
    mixture = SimpleNamespace(alpha_curve_=SimpleNamespace(**shares))
    reason = reason_in_words(mixture, None, {0.0: ZEROS - 1, None: ZEROS})
    assert reason == (
        "The model is a mixture. It is. Of the values compared, it predicts rows that are left "
        "out best."
    )
    assert mixture_in_words(mixture, None) == [
        "The networks of the mixture come from several fits: 78% from α = 0 and 22% from α = ½."
    ]
    assert mixture_in_words(SET, 0.5) == []


@pytest.mark.parametrize(
    ("own", "words"), [(0.5, "at least 30 rows."), (0.0, "fewer than 30 rows.")]
)
def test_the_default_is_said_to_be_one(own, words):
    reason = reason_in_words(SimpleNamespace(alpha_curve_=None, alpha="auto"), own, {own: ZEROS})
    assert reason.startswith(f"α = {alpha_in_words(own)} is the default for tables of {words}")


def test_what_is_left_out_is_noted():
    view = SimpleNamespace(
        features=np.zeros((2000, 1)),
        columns=[None] * 12,
        num_columns=40,
        labels=np.arange(10),
        classes=np.arange(6),
    )
    assert notes_in_words(view, 50_000, [-1.0, 1.0]) == [
        "Scores are of 2,000 evenly spread rows of 50,000.",
        "Of 40 columns, the page shows the 12 to which the model responds most.",
        "Of 10 classes, the curves show the 6 most frequent ones.",
        "α = −1 and α = 1 are left out, because the fits did not stay finite.",
    ]
