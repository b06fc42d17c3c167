"""OpenML's copies have the form of the data folder; anything else is refused or warned of.

Answers of OpenML are made up in their true form, for scikit-learn's own reader to read.
"""

import gzip
import hashlib
import json
import os
import urllib.error
from pathlib import Path

import numpy as np
import pytest

from bbalpha_paper import datasets
from bbalpha_paper.datasets import openml
from bbalpha_paper.datasets.catalog import find_entry

ON_OPENML = [name for name, entry in datasets.CATALOG.items() if entry.openml_id]


def cached_answer(name, columns, sparse=False):
    """Put a stand-in for OpenML's answer into scikit-learn's cache.

    Columns are pairs of a name and values; strings make a nominal attribute. A sparse answer omits
    zeros and the first word of an attribute.
    """
    data_id = find_entry(name).openml_id
    home = Path(os.environ["SCIKIT_LEARN_DATA"]) / "openml" / "openml.org"
    nominal = {column: sorted(set(v)) for column, v in columns if isinstance(v[0], str)}
    kinds = {c: "{" + ",".join(nominal[c]) + "}" if c in nominal else "NUMERIC" for c, _ in columns}
    head = [f"@ATTRIBUTE '{column}' {kind}" for column, kind in kinds.items()]
    rows = zip(*[map(str, v) for _, v in columns], strict=True)
    if sparse:
        unsaid = [nominal.get(column, ["0.0"])[0] for column, _ in columns]
        rows = [[f"{i} {v}" for i, v in enumerate(row) if v != unsaid[i]] for row in rows]
    body = [("{%s}" if sparse else "%s") % ",".join(row) for row in rows]
    arff = "\n".join(["@RELATION stand-in", *head, "@DATA", *body, ""]).encode()
    features = [
        {
            "index": str(index),
            "name": column,
            "data_type": "nominal" if column in nominal else "numeric",
            "is_target": "false",
            "is_ignore": "false",
            "is_row_identifier": "false",
            "number_of_missing_values": "0",
        }
        for index, (column, _) in enumerate(columns)
    ]
    description = {
        "id": str(data_id),
        "name": "stand-in",
        "description": "",
        "version": "1",
        "format": "Sparse_ARFF" if sparse else "ARFF",
        "url": f"https://www.openml.org/data/v1/download/{data_id}/stand-in.arff",
        "status": "active",
        "md5_checksum": hashlib.md5(arff).hexdigest(),
    }
    quality = [{"name": "NumberOfInstances", "value": str(len(body))}]
    answers = {
        f"api/v1/json/data/{data_id}": {"data_set_description": description},
        f"api/v1/json/data/features/{data_id}": {"data_features": {"feature": features}},
        f"api/v1/json/data/qualities/{data_id}": {"data_qualities": {"quality": quality}},
    }
    contents = {path: json.dumps(answer).encode() for path, answer in answers.items()}
    for path, content in {**contents, f"data/v1/download/{data_id}/stand-in.arff": arff}.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / f"{path}.gz").write_bytes(gzip.compress(content, compresslevel=1))


def openml_columns(name, inputs, targets):
    """The columns of a set as OpenML has them, according to public listings."""
    entry = find_entry(name)
    columns = dict(zip(entry.feature_names, inputs.T.tolist(), strict=True))
    labels = {
        "ionosphere": ("b", "g"),
        "madelon": ("1", "2"),
        "pima": ("tested_negative", "tested_positive"),
        "colon": ("normal", "tumor"),
        "mnist": tuple("0123456789"),
    }
    words = [labels[name][int(t)] for t in targets] if name in labels else targets.tolist()
    match name:
        case "boston":  # numbers that are declared as categories, in the order of words
            columns["CHAS"] = [str(int(value > 0)) for value in columns["CHAS"]]
            columns["RAD"] = [("1", "24", "3")[int(value > 0)] for value in columns["RAD"]]
            return [*columns.items(), ("MEDV", words)]
        case "protein":  # the target comes first
            return [("RMSD", words), *columns.items()]
        case "energy":
            return [
                *columns.items(),
                ("cooling_load", [24.6] * len(words)),
                ("heating_load", words),
            ]
        case "naval":  # without the constant columns
            columns = {f"long_{c}": v for c, v in columns.items() if c not in ("T1", "P1")}
            return [
                *columns.items(),
                ("gt_compressor_decay_state_coefficient", words),
                ("gt_turbine_decay_state_coefficient", [0.9875] * len(words)),
            ]
        case "mnist":
            columns = {f"pixel{i}": (inputs[:, i] * 255).tolist() for i in range(784)}
            return [*columns.items(), ("class", words)]
        case "yacht" | "year":  # the name of the target is not known: it is the last column
            columns = {f"V{i}": column for i, column in enumerate(columns.values())}
            return [*columns.items(), ("something", words)]
        case "concrete":
            return [*columns.items(), ("strength", words)]
    return [*columns.items(), ("Class" if name in labels else entry.target_name, words)]


@pytest.mark.usefixtures("smaller")
@pytest.mark.parametrize("name", ON_OPENML)
def test_openml_gives_the_same_arrays_as_the_folder(name, made_up):
    inputs, targets = made_up(name)
    cached_answer(name, openml_columns(name, inputs, targets))
    if name == "boston":
        inputs[:, 3], inputs[:, 8] = inputs[:, 3] > 0, np.where(inputs[:, 8] > 0, 24, 1)
    elif name == "naval":
        inputs[:, 8], inputs[:, 11] = 288.0, 0.998
    table = datasets.load(name)
    tolerance = 2e-5 if name == "mnist" else 1e-10
    np.testing.assert_allclose(table.inputs, inputs, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(table.targets, targets, rtol=1e-10)
    assert table.feature_names == datasets.CATALOG[name].feature_names
    assert table.inputs.dtype == (np.float32 if name == "mnist" else np.float64)
    assert table.source == f"OpenML data set {datasets.CATALOG[name].openml_id}"


def test_openml_naval_may_have_its_constant_columns(made_up):
    inputs, targets = made_up("naval")
    names = datasets.CATALOG["naval"].feature_names
    cached_answer("naval", [*zip(names, inputs.T.tolist(), strict=True), ("kMc", targets.tolist())])
    np.testing.assert_allclose(datasets.load("naval").inputs, inputs, rtol=1e-10)


def test_openml_may_answer_in_sparse_form(made_up):
    inputs, targets = made_up("pima")
    inputs[:, 3:] *= inputs[:, 3:] > 1
    inputs += 0.0  # no negative zeros
    cached_answer("pima", openml_columns("pima", inputs, targets), sparse=True)
    table = datasets.load("pima")
    np.testing.assert_allclose(table.inputs, inputs, rtol=1e-10)
    np.testing.assert_array_equal(table.targets, targets)


ORDERS = {
    "shuffled": lambda num_data: np.random.default_rng(2).permutation(num_data),
    "halves swapped": lambda num_data: np.roll(np.arange(num_data), num_data // 2),
    "reversed": lambda num_data: np.arange(num_data)[::-1],
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
def test_rows_in_another_order_cause_a_warning(order, made_up):
    inputs, targets = made_up("yacht")
    order = order(308)
    cached_answer("yacht", openml_columns("yacht", inputs[order], targets[order]))
    with pytest.warns(
        openml.UnpublishedOrderWarning,
        match=r"OpenML data set 42370 has the rows of yacht in another order than published, so "
        r"the splits are not the published ones\.",
    ):
        table = datasets.load("yacht")
    np.testing.assert_allclose(table.inputs, inputs[order], rtol=1e-10)


def test_rounded_values_cause_no_warning(made_up):
    inputs, targets = (np.round(values, 2) for values in made_up("concrete"))
    cached_answer("concrete", openml_columns("concrete", inputs, targets))
    np.testing.assert_allclose(datasets.load("concrete").inputs, inputs, rtol=1e-10)


def test_openml_with_another_target_is_refused(made_up):
    inputs, targets = made_up("energy")
    columns = openml_columns("energy", inputs, targets)[:-1]
    columns[-1] = ("Y", columns[-1][1])  # the cooling load under a name that nobody knows
    cached_answer("energy", columns)
    with pytest.raises(
        ValueError,
        match=r"heating_load of energy must have mean 22\.3072, as published; got 24\.6 in OpenML "
        r"data set 44960\. Set BBALPHA_DATA to a folder that holds energy/energy\.csv\.gz\.",
    ):
        datasets.load("energy")


def test_openml_with_scaled_inputs_is_refused(made_up):
    inputs, targets = made_up("colon")
    cached_answer("colon", openml_columns("colon", inputs / 1000, targets))
    with pytest.raises(
        ValueError, match=r"g0001 of colon must have mean 7015\.79, as published; g"
    ):
        datasets.load("colon")


def test_openml_with_other_columns_rows_labels_or_words_is_refused(made_up):
    inputs, targets = made_up("yacht")
    cached_answer("yacht", openml_columns("yacht", inputs, targets)[1:])
    with pytest.raises(
        ValueError,
        match=r"yacht must have 308 rows of 6 inputs; got 308 rows of 5 in .* 42370: v1, v2",
    ):
        datasets.load("yacht")

    keep = np.r_[0:100, 101:768]
    inputs, targets = made_up("pima")
    cached_answer("pima", openml_columns("pima", inputs[keep], targets[keep]))
    with pytest.raises(
        ValueError, match=r"pima must have 768 rows of 8 inputs; got 767 rows of 8 in"
    ):
        datasets.load("pima")

    columns = openml_columns("ionosphere", *made_up("ionosphere"))
    cached_answer("ionosphere", [*columns[:-1], ("class", ["good", "bad"] * 175 + ["good"])])
    with pytest.raises(
        ValueError, match=r"good must take the values b and g; got bad, good in Open"
    ):
        datasets.load("ionosphere")

    columns = openml_columns("boston", *made_up("boston"))
    columns[3] = ("CHAS", ["yes", "no"] * 253)
    cached_answer("boston", columns)
    with pytest.raises(
        ValueError, match=r"chas must be numbers; got 'no' in OpenML data set 531\."
    ):
        datasets.load("boston")


def test_openml_out_of_reach_is_one_sentence(monkeypatch):
    def unreachable(**_):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", unreachable)
    with pytest.raises(
        ConnectionError,
        match=r"Could not download boston, OpenML data set 531: .*no route to host.* Try again, or "
        r"set BBALPHA_DATA to a folder that holds boston/boston\.csv\.gz\.",
    ):
        datasets.load("boston")


def test_every_copy_on_openml_has_columns_and_all_but_year_have_marks():
    assert set(openml.COLUMNS) == set(ON_OPENML)
    assert set(openml.MARKS) == set(ON_OPENML) - {"year"}
