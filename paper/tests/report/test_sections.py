"""Every section shows our numbers next to the published ones, with differences done by hand."""

import math
import re
from dataclasses import replace

import pytest

from bbalpha_paper.experiments import NAMES
from bbalpha_paper.report import published
from bbalpha_paper.report.document import Details, Figure, Paragraph, Table
from bbalpha_paper.report.page import page_of
from bbalpha_paper.report.runs import Runs
from bbalpha_paper.report.scores import ERROR, compared_with_paper
from bbalpha_paper.report.sections import section_of
from bbalpha_paper.report.statistics import Estimate


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


def table_of(rows, start):
    """The table of the rows' section whose caption starts like this."""
    blocks = section_of(rows[0].experiment).blocks(Runs(rows))
    (table,) = (table for table in tables(blocks) if table.caption.startswith(start))
    return table


def outcome_of(rows):
    return section_of(rows[0].experiment).outcome(Runs(rows))


def test_probit_is_compared_with_the_paper_as_worked_out_by_hand(rows):
    table = table_of(rows["probit"], "Test log-likelihood in nats")
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


def test_published_data_sets_without_runs_are_shown_with_dashes(rows):
    lines = texts(table_of(rows["probit"], "Test log-likelihood in nats"))
    assert lines["colon · no runs", "1"] == ["—", "−2.261 ± 0.402", "—", "—"]


def test_a_difference_beyond_two_combined_standard_errors_is_bold(rows):
    rows = [replace(entry, dataset="madelon") for entry in rows["probit"]]
    table = table_of(rows, "Test log-likelihood in nats")
    cells = texts(table)["madelon · 3 splits", "1"]
    combined = math.hypot(0.02 / math.sqrt(3), 0.006)
    assert cells[2] == f"+{(0.799 - 0.52) / combined:.1f}"
    assert kinds(table, "madelon · 3 splits", "1")[2] == "beyond"


def test_ranks_of_probit_are_compared_with_the_published(rows, row):
    metrics = {"log_likelihood": -0.6, "error": 0.2}
    worst = [row("probit", "pima", 0.5, metrics, split=split) for split in range(3)]
    lines = texts(table_of(rows["probit"] + worst, "Test log-likelihood in nats"))
    # VB and 10⁻⁶ tie on two splits of three; 1 is best on all.
    assert lines["average rank · 3 cases", "1"][:2] == ["1.00 ± 0.00", "1.90 ± 0.10"]
    assert lines["average rank · 3 cases", "VB (α = 0)"][0] == "2.67 ± 0.17"
    assert lines["average rank · 3 cases", "10⁻⁶"][0] == "2.33 ± 0.17"
    assert lines["average rank · 3 cases", "0.5"][:2] == ["4.00 ± 0.00", "2.29 ± 0.04"]


def test_ranks_among_fewer_alphas_are_not_compared_with_the_published(rows):
    lines = texts(table_of(rows["probit"], "Test log-likelihood in nats"))
    assert not [group for group, _ in lines if group.startswith("average rank")]


def test_data_sets_without_published_numbers_have_their_own_row(rows):
    rows = [replace(entry, dataset="breast-cancer") for entry in rows["probit"]]
    lines = texts(table_of(rows, "Test log-likelihood in nats"))
    assert lines["breast-cancer · 3 splits", "1"] == ["−0.520 ± 0.012", "—", "—", "+0.020 ± 0.006"]


def test_other_configurations_of_probit_stay_out_of_the_main_table(rows):
    changed = [
        replace(entry, configuration="no intercept", metrics={"log_likelihood": -9.0, "error": 0.5})
        for entry in rows["probit"]
    ]
    main = table_of(rows["probit"] + changed, "Test log-likelihood in nats")
    assert texts(main)["pima · 3 splits", "1"][0] == "−0.520 ± 0.012"
    others = texts(table_of(rows["probit"] + changed, "Other choices"))
    assert others["pima", "no intercept"][0] == "−9.000 ± 0.000"
    assert others["pima", "paper"][0] == "−0.501 ± 0.010"


def test_the_limit_of_small_alpha_is_measured_split_by_split(rows):
    lines = texts(table_of(rows["probit"], "Distance of α = 10⁻⁶"))
    assert lines["", "pima"][:2] == ["1 · 10⁻²", "3 · 10⁻³"]  # 0, 0 and 0.01
    assert "at most 1 · 10⁻² nats" in outcome_of(rows["probit"])


def test_regression_counts_where_vb_reaches_the_yardstick(rows):
    rows = [entry for entry in rows["regression"] if entry.dataset == "boston"]
    table = table_of(rows, "Test log-likelihood, ours and published")
    cells = dict(zip(table.header[1:], texts(table)["", "boston"], strict=True))
    assert cells["VB (α = 0), 100 units"] == "−2.49 ± 0.01"
    assert cells["≥ VI-G, 100 units"] == "yes"  # −2.52
    assert cells["≥ VI-G, 50 units"] == "—"
    assert cells["VI-G"] == "−2.52"
    outcome = outcome_of(rows)
    best = "With 1,000 draws α = 1 has the best average rank, 1.00 ± 0.00, followed by α = 0.5, "
    assert f"{best}2.00 ± 0.00; their paired difference is 1.00 ± 0.00." in outcome
    assert "VB with 100 units is within 2 standard errors of VI-G or above it on 1 of 1" in outcome
    poor = [replace(r, metrics=r.metrics | {"log_likelihood": -9.0 - r.split}) for r in rows]
    assert "on 0 of 1 data sets" in outcome_of(poor)
    narrow = [replace(r, configuration="fifty units") for r in rows if r.alpha == 0]
    outcome = outcome_of([*poor, *narrow])
    assert "VB with 50 units is within 2 standard errors of VI-G or above it on 1 of 1" in outcome
    assert "VB with 100 units is within 2 standard errors of VI-G or above it on 0 of 1" in outcome


def test_regression_differences_from_vb_are_paired(rows):
    lines = texts(table_of(rows["regression"], "Test log-likelihood minus VB's"))
    assert lines["", "diabetes"] == ["+0.100 ± 0.000", "+0.050 ± 0.000", "0.000 ± 0.000"]


def test_mnist_is_shown_in_hundredths_as_in_the_paper(rows):
    lines = texts(table_of(rows["mnist"], "100 × test log-likelihood, 1,000 draws"))
    assert lines["mnist · 2 seeds", "−1"][:2] == ["−4.05 ± 0.05", "−4.47"]
    errors = texts(table_of(rows["mnist"], "Test error in %"))
    assert errors["mnist · 2 seeds", "VB (α = 0)"][:2] == ["2.00 ± 0.00", "1.36"]
    outcome = outcome_of(rows["mnist"])
    paper = "(paper: −1, VB = 10⁻⁶, 0.5, 1)"
    assert "by log-likelihood: −1, VB = 10⁻⁶, 0.5, 1; by log-likelihood with 50" in outcome
    assert outcome.count(paper) == 2


def test_the_caption_of_learning_curves_gives_the_last_change_of_the_energy(rows):
    slower = [
        replace(r, metrics=r.metrics | {"curve_energy": [9.0, 8.0, -1.0]}) if r.alpha == 1 else r
        for r in rows["mnist"]
    ]
    captions = {
        text: [b.caption for b in section_of("mnist").blocks(Runs(rows)) if isinstance(b, Figure)]
        for text, rows in {"−14 %": rows["mnist"], "−112 to −14 %": slower}.items()
    }
    for text, (caption,) in captions.items():
        assert caption.endswith(f"; from epoch 2 to 4 the energy changed by {text}")


def test_the_ambiguous_error_of_clean_energy_is_compared_with_both_readings(rows):
    for start, ours in (("Root mean squared", "0.025 ± 0.000"), ("Mean squared", "0.000 ± 0.000")):
        lines = texts(table_of(rows["clean-energy"], start))
        assert lines["cep · 2 seeds", "0.5"][:2] == [ours, "1.080 ± 0.010"]


def test_the_order_of_clean_energy_is_compared_with_the_papers(rows):
    outcome = outcome_of(rows["clean-energy"])
    assert "(paper: 0.5, 1, VB, 10⁻⁶); by RMSE: " in outcome
    assert outcome.endswith("α = 0.5 minus VB, paired (main): −0.005 ± 0.000 nats.")
    first = [row for row in rows["clean-energy"] if row.alpha == 0.5]
    assert outcome_of(first).startswith("No runs with several α yet.")


def test_the_bias_of_the_gradient_is_the_excess_over_vb(rows):
    lines = texts(table_of(rows["gradient"], "Bias minus the bias of VB"))
    assert lines["K = 1", "1"] == ["0.2550 ± 0.0050", "0.2774", "0.92"]
    assert ("K = 1", "VB (α = 0)") not in lines
    ratios = texts(table_of(rows["gradient"], "De-noised bias"))
    assert ratios["K = 10", "1"][-1] == "3,000 ×"
    assert ("K = 10", "VB (α = 0)") not in ratios  # whose gradient has no bias


def test_the_deviation_of_the_gradient_is_split_by_its_fall_with_draws(rows):
    blocks = section_of("gradient").blocks(Runs(rows["gradient"]))
    (text,) = (
        block.text for block in blocks if isinstance(block, Paragraph) and "b and d" in block.text
    )
    # (14.05² − 12²)/0.9 = 59.3 is d², and 14.05² − d² is b²; the paper has 13.9109 and 12.5058.
    assert "b and d: 11.8 and 7.7 (ours), 12.3 and 6.4 (the paper's)." in text


def test_linear_fits_are_compared_with_the_closed_form(rows):
    lines = texts(table_of(rows["linear"], "Variance of the first weight, example-2"))
    assert lines["", "1"] == ["0.600000", "0.600020", "−0.000020", "0.600000"]
    assert "within 3 · 10⁻⁵ of the closed form" in outcome_of(rows["linear"])


def test_toy_and_divergence_say_how_spread_grows(rows):
    assert "3.00 at α = −1 to 5.00 at α = 1" in outcome_of(rows["toy"])
    outcome = outcome_of(rows["divergence"])
    assert "0.50 at α = −5 to 1.50 at α = 5" in outcome


@pytest.mark.parametrize("name", NAMES)
def test_a_section_copes_with_missing_runs_and_missing_numbers(name, rows):
    rows = rows[name]
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


def test_every_section_names_its_place_in_the_paper_by_printed_numbers():
    for name in NAMES:
        place = section_of(name).PLACE
        assert re.search(r"(Tables?|Figures?) \d", place)
        assert "_" not in place


def test_published_numbers_are_those_of_the_paper():
    assert published.PROBIT_LOG_LIKELIHOOD.of("madelon", 0.5) == Estimate(-0.920, 0.008)
    assert published.PROBIT_ERROR.of(published.RANK, 0.0) == Estimate(2.578, 0.031)
    assert published.MNIST_LOG_LIKELIHOOD.of("mnist", -1.0) == Estimate(-4.47)
    assert published.CEP_ERROR.of("cep", 1e-6) == Estimate(1.13, 0.01)
    assert published.GRADIENT_BIAS.of("5", 0.5) == Estimate(0.0189)
    assert published.GRADIENT_BIAS.of("5", 0.0) is None
    assert published.YARDSTICK_LOG_LIKELIHOOD["naval"]["HMC"] == 7.31


def test_a_paper_that_had_our_numbers_would_agree_with_us(rows, row):
    """Rows whose mean is the published number are 0 standard errors from it."""
    rows = [
        row("probit", name, alpha, {"error": entry.mean + sign * 0.01}, split=split)
        for name in published.PROBIT_ERROR.datasets
        for alpha, entry in published.PROBIT_ERROR.rows[name].items()
        for split, sign in enumerate((-1, 1))
    ]
    table = compared_with_paper(Runs(rows), ERROR, "", published.PROBIT_ERROR, ranked=False)
    assert {cells[2] for cells in texts(table).values()} == {"0.0"}
    assert "16 of 16 published numbers" in outcome_of(rows)
