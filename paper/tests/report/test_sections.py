"""The report: its statistics, every section, both kinds of page, and what is turned away."""

import json
import math
import re
import subprocess
import sys
from dataclasses import asdict, replace
from html.parser import HTMLParser

import numpy as np
import pytest
from bbalpha_paper.report.rows import Row, append_rows, read_file, rows_file
from typer.testing import CliRunner

from bbalpha.cli import app
from bbalpha_paper.report import published
from bbalpha_paper.report.background import reproduction
from bbalpha_paper.report.colors import alpha_shades
from bbalpha_paper.report.document import Details, Figure, Paragraph, Table
from bbalpha_paper.report.drawing import figure_svg
from bbalpha_paper.report.html import html_page
from bbalpha_paper.report.markdown import markdown_page
from bbalpha_paper.report.page import page_of
from bbalpha_paper.report.palette import Palette
from bbalpha_paper.report.runs import Runs
from bbalpha_paper.report.scores import ERROR, beside_paper
from bbalpha_paper.report.sections import NAMES, section_of
from bbalpha_paper.report.statistics import (
    Estimate,
    distance,
    estimate,
    means,
    over_cases,
    paired,
    ranks,
)
from bbalpha_paper.report.words import (
    alpha_name,
    number,
    setting_text,
    small_number,
    time,
    upper_bound,
)

VOID = {"meta", "br", "hr", "img", "link"}
ALPHAS = (1.0, 0.5, 1e-6, 0.0)


def row(experiment, dataset, alpha, metrics, **changes):
    fields = {
        "experiment": experiment,
        "configuration": "main",
        "dataset": dataset,
        "split": 0,
        "seed": 0,
        "alpha": alpha,
        "settings": {"scale": "paper", "num_epochs": 20},
        "metrics": metrics,
        "seconds": 2.0,
        "version": "0.1.0",
    }
    return Row(**fields | changes)


def probit_rows():
    """Three splits of Pima whose numbers can be worked out by hand."""
    scores = {1.0: (-0.50, -0.52, -0.54), 0.0: (-0.51, -0.54, -0.57), 1e-6: (-0.51, -0.54, -0.56)}
    return [
        row("probit", "pima", alpha, {"log_likelihood": value, "error": 0.2}, split=split)
        for alpha, values in scores.items()
        for split, value in enumerate(values)
    ]


def regression_rows():
    return [
        row(
            "regression",
            dataset,
            alpha,
            {
                "log_likelihood": -2.5 + 0.1 * alpha + 0.01 * split,
                "log_likelihood_50": -2.6,
                "rmse": 3.0 + 0.1 * split,
                "noise_deviation": 2.0,
            },
            split=split,
            configuration="authors' code",
        )
        for dataset in ("boston", "diabetes")
        for split in range(3)
        for alpha in ALPHAS
    ]


def curve_rows(experiment, dataset, error):
    return [
        row(
            experiment,
            dataset,
            alpha,
            {
                "log_likelihood": -0.05 - 0.01 * alpha - 0.001 * seed,
                "log_likelihood_50": -0.06,
                error: 0.02 + 0.01 * alpha,
                "mse": 0.0004,
                "epochs": [1, 2, 4],
                "curve_log_likelihood": [-0.5, -0.1, -0.05],
                f"curve_{error}": [0.5, 0.1, 0.02],
                "curve_energy": [9.0, 7.0, 6.0],
            },
            seed=seed,
        )
        for seed in range(2)
        for alpha in (*ALPHAS, -1.0)
    ]


def gradient_rows():
    return [
        row(
            "gradient",
            "boston",
            alpha,
            {
                "num_samples": [1, 10],
                "bias": [0.35 + 0.25 * alpha + 0.01 * split * alpha, 0.15],
                "denoised_bias": [0.2 * alpha, 0.004 * alpha],
                "deviation": [14.0 + 0.1 * split, 12.0],
            },
            split=split,
        )
        for split in range(2)
        for alpha in ALPHAS
    ]


def linear_rows():
    return [
        row(
            "linear",
            dataset,
            alpha,
            {
                "mean": [0.0, 0.0],
                "covariance": [[0.5 + alpha / 10, 0.0], [0.0, 0.5]],
                "variance_closed_form": 0.5 + alpha / 10 + 2e-5,
                "true_mean": [0.0, 0.0],
                "true_covariance": [[0.6, 0.4], [0.4, 0.6]],
            },
        )
        for dataset in ("example-1", "example-2")
        for alpha in (-1.0, 1e-6, 0.5, 1.0)
    ]


def toy_rows():
    grid = np.linspace(-6, 6, 13)
    return [
        row(
            "toy",
            "cubic",
            alpha,
            {
                "grid": grid.tolist(),
                "mean": (grid**3).tolist(),
                "deviation": (4.0 + alpha + 0 * grid).tolist(),
                "train_inputs": [-2.0, 1.0],
                "train_targets": [-8.0, 1.0],
            },
        )
        for alpha in (-1.0, 1.0)
    ]


def divergence_rows():
    mixture = {"weights": [0.6, 0.4], "means": [-1.0, 2.0], "deviations": [0.5, 1.0]}
    return [
        row(
            "divergence",
            "bimodal",
            alpha,
            {"mean": 0.2, "deviation": 1.0 + alpha / 10, "log_mass": -0.5, "log_divergence": -1.0},
            settings={"scale": "paper"} | mixture,
        )
        for alpha in (-5.0, 0.0, 5.0)
    ]


ROWS = {
    "divergence": divergence_rows(),
    "probit": probit_rows(),
    "regression": regression_rows(),
    "mnist": curve_rows("mnist", "mnist", "error"),
    "clean-energy": curve_rows("clean-energy", "cep", "rmse"),
    "gradient": gradient_rows(),
    "linear": linear_rows(),
    "toy": toy_rows(),
}
ALL_ROWS = [entry for rows in ROWS.values() for entry in rows]


def tables(blocks):
    for block in blocks:
        if isinstance(block, Details):
            yield from tables(block.blocks)
        elif isinstance(block, Table):
            yield block


def texts(table):
    """The cells of a table by the label of the group and the first cell of the row."""
    return {
        (group.label, line[0].text): [cell.text for cell in line[1:]]
        for group in table.groups
        for line in group.rows
    }


def kinds(table, group, name):
    (line,) = (
        line
        for entry in table.groups
        for line in entry.rows
        if (entry.label, line[0].text) == (group, name)
    )
    return [cell.kind for cell in line[1:]]


def section_tables(name, rows=None):
    """The tables of a section by their captions."""
    blocks = section_of(name).blocks(Runs(ROWS[name] if rows is None else rows))
    return {table.caption: table for table in tables(blocks)}


def table_of(name, start, rows=None):
    """The table of a section whose caption starts so."""
    found = section_tables(name, rows)
    (table,) = (table for caption, table in found.items() if caption.startswith(start))
    return table


# Statistics


def test_an_estimate_is_a_mean_with_the_standard_error_of_the_mean():
    assert estimate([1.0, 2.0, 3.0]) == Estimate(2.0, pytest.approx(1 / math.sqrt(3)), 3)
    assert estimate([4.0]) == Estimate(4.0, None, 1)
    assert estimate([]) is None


def test_paired_differences_are_over_the_cases_that_both_have():
    ours = {("a", 0, 0): 1.0, ("a", 1, 0): 5.0, ("a", 2, 0): 9.0}
    reference = {("a", 0, 0): 0.5, ("a", 1, 0): 3.5, ("b", 2, 0): 0.0}
    assert paired(ours, reference) == Estimate(1.0, pytest.approx(0.5), 2)


def test_a_distance_is_counted_in_combined_standard_errors():
    assert distance(Estimate(1.0, 3.0), Estimate(-9.0, 4.0)) == 2.0
    assert distance(Estimate(1.0, 0.5), Estimate(0.0)) == 2.0
    assert distance(Estimate(1.0), Estimate(0.0, 1.0)) is None  # of one run
    assert distance(None, Estimate(0.0, 1.0)) is None


def test_ranks_are_over_the_cases_that_every_alpha_has():
    scores = {
        1.0: {("a", 0, 0): 3.0, ("a", 1, 0): 1.0, ("a", 2, 0): 9.0},
        0.0: {("a", 0, 0): 1.0, ("a", 1, 0): 2.0},
        0.5: {("a", 0, 0): 2.0, ("a", 1, 0): 2.0, ("a", 2, 0): 9.0},
    }
    found = ranks(scores, higher_is_better=True)
    assert found[0.5] == {("a", 0, 0): 2.0, ("a", 1, 0): 1.5}
    average = means(found)
    assert {alpha: rank.mean for alpha, rank in average.items()} == {1.0: 2.0, 0.0: 2.25, 0.5: 1.75}
    assert average[1.0].standard_error == pytest.approx(1.0)


def test_seeds_of_one_split_are_not_independent():
    values = {("a", split, seed): split + 0.1 * seed for split in range(3) for seed in range(2)}
    found = over_cases(values)
    assert found == pytest.approx((1.05, 1 / math.sqrt(3), 3))
    assert over_cases({("a", 0, seed): float(seed) for seed in range(4)}).num_values == 4
    assert over_cases({}) is None


def test_one_case_has_ranks_without_standard_errors():
    found = ranks({1.0: {("a", 0, 0): 0.1}, 0.0: {("a", 0, 0): 0.3}}, False)
    assert means(found) == {1.0: Estimate(1.0, None, 1), 0.0: Estimate(2.0, None, 1)}


# Words


def test_powers_are_named_as_in_the_paper():
    names = [alpha_name(alpha) for alpha in (1.0, 0.5, 1e-6, 0.0, -1.0, 1.25)]
    assert names == ["1", "0.5", "10⁻⁶", "VB (α = 0)", "−1", "1.25"]


def test_numbers_have_a_minus_that_is_one_and_no_negative_zero():
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


def test_every_alpha_has_a_color_of_its_own():
    colors = [alpha_shades(alpha) for alpha in (*ALPHAS, -1.0, 2.0, -0.5, 0.25, 1.5)]
    assert len(set(colors)) == len(colors)
    assert alpha_shades(1e9) == alpha_shades(10.0)


# Sections


def test_probit_stands_beside_the_paper_with_differences_worked_out_by_hand():
    table = table_of("probit", "Test log-likelihood")
    lines = texts(table)
    # Means and √(s²/3): 1 → −0.52 ± 0.02/√3, VB → −0.54 ± 0.03/√3; the paper has −0.501 ± 0.010.
    combined = math.hypot(0.02 / math.sqrt(3), 0.010)
    apart = f"−{0.019 / combined:.1f}"
    # Paired: 0.01, 0.02, 0.03.
    gain = "+0.020 ± 0.006"
    expected = ["−0.520 ± 0.012", "−0.501 ± 0.010", apart, gain]
    assert lines["pima · 3 splits", "1"] == expected
    assert lines["pima · 3 splits", "VB (α = 0)"][0] == "−0.540 ± 0.017"
    assert lines["pima · 3 splits", "VB (α = 0)"][3] == "—"
    assert lines["pima · 3 splits", "0.5"] == ["—", "−0.501 ± 0.010", "—", "—"]
    assert kinds(table, "pima · 3 splits", "1") == ["", "published", "", "beyond"]


def test_published_data_sets_without_runs_are_shown_with_dashes():
    lines = texts(table_of("probit", "Test log-likelihood"))
    assert lines["colon · no runs", "1"] == ["—", "−2.261 ± 0.402", "—", "—"]


def test_a_difference_beyond_two_combined_standard_errors_stands_out():
    rows = [replace(entry, dataset="madelon") for entry in probit_rows()]
    table = table_of("probit", "Test log-likelihood", rows)
    cells = texts(table)["madelon · 3 splits", "1"]
    combined = math.hypot(0.02 / math.sqrt(3), 0.006)
    assert cells[2] == f"+{(0.799 - 0.52) / combined:.1f}"
    assert kinds(table, "madelon · 3 splits", "1")[2] == "beyond"


def test_ranks_of_probit_stand_beside_the_published():
    metrics = {"log_likelihood": -0.6, "error": 0.2}
    worst = [row("probit", "pima", 0.5, metrics, split=split) for split in range(3)]
    lines = texts(table_of("probit", "Test log-likelihood", probit_rows() + worst))
    # VB and 10⁻⁶ tie on two splits of three; 1 is best on all.
    assert lines["average rank · 3 cases", "1"][:2] == ["1.00 ± 0.00", "1.90 ± 0.10"]
    assert lines["average rank · 3 cases", "VB (α = 0)"][0] == "2.67 ± 0.17"
    assert lines["average rank · 3 cases", "10⁻⁶"][0] == "2.33 ± 0.17"
    assert lines["average rank · 3 cases", "0.5"][:2] == ["4.00 ± 0.00", "2.29 ± 0.04"]


def test_ranks_among_fewer_alphas_do_not_stand_beside_the_published():
    lines = texts(table_of("probit", "Test log-likelihood"))
    assert not [group for group, _ in lines if group.startswith("average rank")]


def test_data_sets_that_nobody_published_have_a_row_of_their_own():
    rows = [replace(entry, dataset="breast-cancer") for entry in probit_rows()]
    lines = texts(table_of("probit", "Test log-likelihood", rows))
    assert lines["breast-cancer · 3 splits", "1"] == ["−0.520 ± 0.012", "—", "—", "+0.020 ± 0.006"]


def test_other_configurations_of_probit_stay_out_of_the_main_table():
    changed = [
        replace(entry, configuration="no intercept", metrics={"log_likelihood": -9.0, "error": 0.5})
        for entry in probit_rows()
    ]
    main = table_of("probit", "Test log-likelihood", probit_rows() + changed)
    assert texts(main)["pima · 3 splits", "1"][0] == "−0.520 ± 0.012"
    others = texts(table_of("probit", "Other choices", probit_rows() + changed))
    assert others["pima", "no intercept"][0] == "−9.000 ± 0.000"
    assert others["pima", "paper"][0] == "−0.501 ± 0.010"


def test_the_limit_of_small_alpha_is_measured_split_by_split():
    lines = texts(table_of("probit", "Distance of α = 10⁻⁶"))
    assert lines["", "pima"][:2] == ["1 · 10⁻²", "3 · 10⁻³"]  # 0, 0 and 0.01
    assert "at most 1 · 10⁻² nats" in section_of("probit").outcome(Runs(probit_rows()))


def test_regression_counts_where_vb_reaches_the_yardstick():
    rows = [entry for entry in regression_rows() if entry.dataset == "boston"]
    table = table_of("regression", "Test log-likelihood beside others'", rows)
    cells = dict(zip(table.header[1:], texts(table)["", "boston"], strict=True))
    assert cells["VB (α = 0), 100 units"] == "−2.49 ± 0.01"
    assert cells["≥ VI-G, 100 units"] == "yes"  # −2.52
    assert cells["≥ VI-G, 50 units"] == "—"
    assert cells["VI-G"] == "−2.52"
    outcome = section_of("regression").outcome(Runs(rows))
    best = "With 1,000 draws α = 1 has the best average rank, 1.00 ± 0.00, α = 0.5 the next, "
    assert f"{best}2.00 ± 0.00; paired, they differ by 1.00 ± 0.00." in outcome
    assert "VB with 100 units is within 2 standard errors of VI-G or above it on 1 of 1" in outcome
    poor = [replace(r, metrics=r.metrics | {"log_likelihood": -9.0 - r.split}) for r in rows]
    assert "on 0 of 1 data sets" in section_of("regression").outcome(Runs(poor))
    narrow = [replace(r, configuration="fifty units") for r in rows if r.alpha == 0]
    outcome = section_of("regression").outcome(Runs([*poor, *narrow]))
    assert "VB with 50 units is within 2 standard errors of VI-G or above it on 1 of 1" in outcome
    assert "VB with 100 units is within 2 standard errors of VI-G or above it on 0 of 1" in outcome


def test_regression_differences_from_vb_are_paired():
    lines = texts(table_of("regression", "Test log-likelihood against VB"))
    assert lines["", "diabetes"] == ["+0.100 ± 0.000", "+0.050 ± 0.000", "0.000 ± 0.000"]


def test_mnist_is_shown_in_hundredths_as_in_the_paper():
    lines = texts(table_of("mnist", "100 × test log-likelihood, 1,000 draws"))
    assert lines["mnist · 2 seeds", "−1"][:2] == ["−4.05 ± 0.05", "−4.47"]
    errors = texts(table_of("mnist", "Test error in %"))
    assert errors["mnist · 2 seeds", "VB (α = 0)"][:2] == ["2.00 ± 0.00", "1.36"]
    outcome = section_of("mnist").outcome(Runs(ROWS["mnist"]))
    paper = "(paper: −1, VB (α = 0) = 10⁻⁶, 0.5, 1)"
    assert "by log-likelihood −1, VB (α = 0) = 10⁻⁶, 0.5, 1; by log-likelihood with 50" in outcome
    assert outcome.count(paper) == 2


def test_the_caption_of_learning_curves_says_how_far_the_energy_was_from_its_end():
    slower = [
        replace(r, metrics=r.metrics | {"curve_energy": [9.0, 8.0, -1.0]}) if r.alpha == 1 else r
        for r in ROWS["mnist"]
    ]
    captions = {
        text: [b.caption for b in section_of("mnist").blocks(Runs(rows)) if isinstance(b, Figure)]
        for text, rows in {"−14 %": ROWS["mnist"], "−112 to −14 %": slower}.items()
    }
    for text, (caption,) in captions.items():
        assert caption.endswith(f"; from epoch 2 to 4 the energy changed by {text}")


def test_the_ambiguous_error_of_clean_energy_is_beside_both_readings():
    for start, ours in (("Root mean squared", "0.025 ± 0.000"), ("Mean squared", "0.000 ± 0.000")):
        lines = texts(table_of("clean-energy", start))
        assert lines["cep · 2 seeds", "0.5"][:2] == [ours, "1.080 ± 0.010"]


def test_the_order_of_clean_energy_is_beside_the_papers():
    outcome = section_of("clean-energy").outcome(Runs(ROWS["clean-energy"]))
    assert "(paper: 0.5, 1, VB (α = 0), 10⁻⁶); by RMSE" in outcome
    assert outcome.endswith("α = 0.5 minus VB, paired (main): −0.005 ± 0.000 nats.")
    first = [row for row in ROWS["clean-energy"] if row.alpha == 0.5]
    assert section_of("clean-energy").outcome(Runs(first)).startswith("There are not yet")


def test_the_bias_of_the_gradient_is_that_above_vb():
    lines = texts(table_of("gradient", "Bias, minus that of VB"))
    assert lines["K = 1", "1"] == ["0.2550 ± 0.0050", "0.2774", "0.92"]
    assert ("K = 1", "VB (α = 0)") not in lines
    ratios = texts(table_of("gradient", "De-noised bias"))
    assert ratios["K = 10", "1"][-1] == "3,000 ×"
    assert ("K = 10", "VB (α = 0)") not in ratios  # whose gradient has no bias


def test_the_deviation_of_the_gradient_is_taken_apart_by_its_fall_with_draws():
    blocks = section_of("gradient").blocks(Runs(gradient_rows()))
    (text,) = (
        block.text for block in blocks if isinstance(block, Paragraph) and "b and d" in block.text
    )
    # (14.05² − 12²)/0.9 = 59.3 is d², and 14.05² − d² is b²; the paper has 13.9109 and 12.5058.
    assert "b and d: 11.8 and 7.7 (ours), 12.3 and 6.4 (the paper's)." in text


def test_linear_fits_stand_beside_the_closed_form():
    lines = texts(table_of("linear", "Variance of the first weight, example-2"))
    assert lines["", "1"] == ["0.600000", "0.600020", "−0.000020", "0.600000"]
    assert "within 3 · 10⁻⁵ of the closed form" in section_of("linear").outcome(Runs(linear_rows()))


def test_toy_and_divergence_say_how_spread_grows():
    assert "3.00 at α = −1 to 5.00 at α = 1" in section_of("toy").outcome(Runs(toy_rows()))
    outcome = section_of("divergence").outcome(Runs(divergence_rows()))
    assert "0.50 at α = −5 to 1.50 at α = 5" in outcome


@pytest.mark.parametrize("name", NAMES)
def test_a_section_bears_missing_runs_and_missing_numbers(name):
    rows = ROWS[name]
    empty = [replace(entry, metrics=dict.fromkeys(entry.metrics)) for entry in rows]
    for some in (rows[:1], rows[1::3], empty, [*rows[:2], *empty[2:]]):
        page = page_of(some, "results")
        (section,) = page.sections
        assert section.outcome.endswith(".")
        (overview,) = page.overview.groups
        assert len(overview.rows) == len(NAMES)
        assert sum(line[1].text == "Not run." for line in overview.rows) == len(NAMES) - 1
        assert all(
            len(line) == len(t.header)
            for t in tables(section.blocks)
            for g in t.groups
            for line in g.rows
        )


@pytest.mark.parametrize("name", NAMES)
def test_a_section_names_its_command_settings_and_times(name):
    (section,) = page_of(ROWS[name], "results").sections
    details = section.blocks[-1]
    numbers, settings = details.blocks
    assert f"{len(ROWS[name])} runs" in details.label
    assert "2 s" in {cell.text for g in numbers.groups for line in g.rows for cell in line}
    assert texts(settings)["", "scale"][0] == "paper"
    (command,) = section.blocks[1].lines
    assert command.startswith(f"bbalpha reproduce {name} --scale paper --data ")
    assert command.endswith(" --output results")


def test_data_sets_that_share_options_share_a_command():
    rows = regression_rows()
    rows = [r for r in rows if r.dataset == "boston" or (r.split < 2 and r.alpha in (0.5, 0))]
    lines = reproduction(Runs(rows), "out").lines
    assert lines == (
        "bbalpha reproduce regression --scale paper --data boston --alphas 1,0.5,1e-06,0 "
        "--splits 3 --epochs 20 --output out",
        "bbalpha reproduce regression --scale paper --data diabetes --alphas 0.5,0 "
        "--splits 2 --epochs 20 --output out",
    )


def test_settings_say_for_which_data_sets_they_hold():
    rows = [
        replace(r, settings=r.settings | {"num_epochs": 5}) if r.dataset == "diabetes" else r
        for r in regression_rows()
    ]
    table = table_of_background(rows)
    assert table.header[1:] == ("authors' code: boston", "authors' code: diabetes")
    assert texts(table)["", "epochs"] == ["20", "5"]


def table_of_background(rows):
    (section,) = page_of(rows, "results").sections
    return section.blocks[-1].blocks[1]


def test_published_numbers_are_those_of_the_paper():
    assert published.PROBIT_LOG_LIKELIHOOD.of("madelon", 0.5) == Estimate(-0.920, 0.008)
    assert published.PROBIT_ERROR.of(published.RANK, 0.0) == Estimate(2.578, 0.031)
    assert published.MNIST_LOG_LIKELIHOOD.of("mnist", -1.0) == Estimate(-4.47)
    assert published.CEP_ERROR.of("cep", 1e-6) == Estimate(1.13, 0.01)
    assert published.GRADIENT_BIAS.of("5", 0.5) == Estimate(0.0189)
    assert published.GRADIENT_BIAS.of("5", 0.0) is None
    assert published.YARDSTICK_LOG_LIKELIHOOD["naval"]["HMC"] == 7.31


def test_a_paper_that_had_our_numbers_would_agree_with_us():
    """Rows whose mean is the published number are 0 standard errors from it."""
    rows = [
        row("probit", name, alpha, {"error": entry.mean + sign * 0.01}, split=split)
        for name in published.PROBIT_ERROR.datasets
        for alpha, entry in published.PROBIT_ERROR.rows[name].items()
        for split, sign in enumerate((-1, 1))
    ]
    table = beside_paper(Runs(rows), ERROR, "", published.PROBIT_ERROR, ranked=False)
    assert {cells[2] for cells in texts(table).values()} == {"0.0"}
    assert "16 of 16 published numbers" in section_of("probit").outcome(Runs(rows))


# Pages


@pytest.fixture(scope="module")
def page():
    return page_of(ALL_ROWS, "results")


@pytest.fixture(scope="module")
def html(page):
    return html_page(page, Palette.of({entry.alpha for entry in ALL_ROWS}))


class Reader(HTMLParser):
    """Collects names and links, and sees that every element is closed."""

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


def test_the_page_has_every_section_in_the_order_of_the_paper(page, html):
    assert tuple(section.name for section in page.sections) == NAMES
    assert re.findall(r'<section id="([\w-]+)"', html) == list(NAMES)
    facts = dict(page.facts)
    assert facts["bbalpha"] == "0.1.0"
    assert facts["scale"] == "paper"
    assert facts["runs"] == str(len(ALL_ROWS))
    assert facts["time of all runs"] == time(2.0 * len(ALL_ROWS))


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


def test_what_rows_say_cannot_become_markup():
    rows = [replace(r, configuration="<b>&", dataset="<i>") for r in probit_rows()]
    rows += [replace(r, dataset="<i>") for r in probit_rows()]
    made = page_of(rows, "results")
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


# The command


def written(folder, rows):
    for entry in rows:
        append_rows(rows_file(folder, entry.experiment, entry.dataset), [entry])
    return folder


def run(*args):
    return CliRunner().invoke(app, ["report", *map(str, args)], catch_exceptions=False)


def refused(*args):
    result = run(*args)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    return line.removeprefix("Error: ")


def test_the_command_writes_one_html_file(tmp_path):
    results = written(tmp_path / "results", probit_rows())
    output = tmp_path / "report.html"
    result = run(results, "--output", output)
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert result.stderr == f"9 runs of 1 experiment: {output}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "results"]
    assert "−0.520 ± 0.012" in output.read_text("utf-8")
    assert str(tmp_path) not in output.read_text("utf-8")


def test_the_command_writes_markdown_with_its_drawings(tmp_path):
    results = written(tmp_path / "results", toy_rows())
    assert run(results, "--output", tmp_path / "docs.md", "--quiet").output == ""
    (link,) = re.findall(r"\]\(([^)#]+)\)", (tmp_path / "docs.md").read_text("utf-8"))
    assert (tmp_path / link).read_text("utf-8").startswith("<?xml")


def test_the_page_names_the_command_that_made_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "docs" / "results", toy_rows())
    run("docs/results", "--output", "docs/page.md")
    page = (tmp_path / "docs" / "page.md").read_text("utf-8")
    assert "`bbalpha report docs/results --output docs/page.md`" in page


def test_the_command_turns_away_what_it_cannot_read_or_write(tmp_path):
    results = written(tmp_path / "results", probit_rows())
    page = tmp_path / "report.html"
    assert refused(results, "--output", tmp_path / "a.pdf") == (
        f"--output must end in .html or .md; got {tmp_path / 'a.pdf'}."
    )
    assert "got the folder" in refused(results, "--output", folder(tmp_path / "b.html"))
    assert "no such file or directory" in refused(results, "--output", tmp_path / "no" / "c.md")
    assert refused(tmp_path / "none", "--output", page) == (
        f"the results must be a folder; got nothing at {tmp_path / 'none'}."
    )
    (tmp_path / "rows.jsonl").write_text("")
    assert "got the file" in refused(tmp_path / "rows.jsonl", "--output", page)
    assert "got none in" in refused(folder(tmp_path / "empty"), "--output", page)
    (tmp_path / "d_files").write_text("")
    assert "room for the folder" in refused(results, "--output", tmp_path / "d.md")
    assert not page.exists()


def folder(path):
    path.mkdir()
    return path


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "must be a row in JSON"),
        ("[]", "must have the fields experiment, "),
        ('{"experiment": "probit"}', "must have the fields experiment, "),
        (json.dumps(asdict(probit_rows()[0]) | {"alpha": "x"}), "the field alpha as a row has it"),
        (json.dumps(asdict(probit_rows()[0]) | {"metrics": 1}), "the field metrics as a row has"),
        (json.dumps(asdict(probit_rows()[0]) | {"experiment": "x"}), "must be one of divergence"),
    ],
)
def test_a_broken_line_is_refused_in_a_sentence(tmp_path, line, message):
    file = rows_file(written(tmp_path / "results", probit_rows()), "probit", "pima")
    file.write_text(f"{file.read_text('utf-8')}{line}\n", "utf-8")
    sentence = refused(tmp_path / "results", "--output", tmp_path / "report.html")
    assert message in sentence
    assert sentence.endswith(".")


def test_rows_survive_being_written(tmp_path):
    file = rows_file(tmp_path, "toy", "cubic")
    append_rows(file, toy_rows())
    assert read_file(file) == toy_rows()


def test_help_comes_without_heavy_libraries():
    code = (
        "import sys; from typer.testing import CliRunner; from bbalpha.cli import app\n"
        "assert 'report.html' in CliRunner().invoke(app, ['report', '--help']).output\n"
        "print({'jax', 'matplotlib', 'numpy', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
