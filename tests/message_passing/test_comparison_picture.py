"""The picture of a comparison: a panel per question, a line per method."""

import dataclasses

import numpy as np
from matplotlib.collections import PathCollection

import bbalpha as bb
from bbalpha.message_passing.comparison_picture import figure_of

NAN = float("nan")
MEAN, DEVIATION = np.array([1.0, -2.0]), np.array([0.5, 0.2])
REFERENCE = bb.ComparisonRow("exact", NAN, MEAN, DEVIATION, -70.0, -0.8, 0.01, 0.0, True)
ROW = bb.ComparisonRow("power_ep", 1.0, MEAN + 0.1, 2 * DEVIATION, -71.0, -0.9, 0.02, 0.0, True)
FAILED = bb.ComparisonRow(
    "snep", 1.0, np.full(2, NAN), np.full(2, NAN), NAN, NAN, NAN, NAN, False, "no"
)


def points(axis, line):
    dots = [child for child in axis.collections if isinstance(child, PathCollection)]
    return dots[line].get_offsets()[:, 0].tolist()


def test_dots_are_errors_ratios_and_scores():
    axes = figure_of(bb.Comparison((ROW, FAILED), REFERENCE)).axes
    np.testing.assert_allclose(points(axes[0], 0), [0.2, 0.5])
    assert [points(axis, 0) for axis in axes[1:]] == [[2.0, 2.0], [-71.0], [-0.9], [0.02]]
    assert [len(points(axis, 1)) for axis in axes] == [0] * 5
    labels = [text.get_text() for text in axes[0].get_yticklabels()]
    assert labels == ["power_ep, α = 1", "snep, α = 1"]


def test_what_nobody_has_is_left_out():
    none = dataclasses.replace(FAILED, method="none")
    row = dataclasses.replace(ROW, held_out=NAN)
    titles = [axis.get_xlabel() for axis in figure_of(bb.Comparison((row,), none)).axes]
    assert [title.partition("\n")[0] for title in titles] == ["log evidence", "time"]
