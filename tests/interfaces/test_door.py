"""What the estimators take as inputs and targets."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import bbalpha as bb
from bbalpha.interfaces.door import MOST_CELLS, check_numbers

SETTINGS = {
    "hidden_layer_sizes": (),
    "max_epochs": 2,
    "num_samples": 10,
    "num_predictive_samples": 50,
    "random_state": 0,
}
KINDS = {
    "csr_array": sparse.csr_array,
    "csc_array": sparse.csc_array,
    "coo_array": sparse.coo_array,
    "csr_matrix": sparse.csr_matrix,
}


@pytest.fixture(scope="module")
def rows():
    random = np.random.RandomState(0)
    inputs = random.normal(size=(40, 3)) * (random.uniform(size=(40, 3)) < 0.4)
    return inputs, inputs @ [1.0, -2.0, 0.5] + random.normal(size=40)


@pytest.fixture(scope="module")
def models(rows):
    inputs, numbers = rows
    regressor = bb.BBAlphaRegressor(**SETTINGS).fit(inputs, numbers)
    return regressor, bb.BBAlphaClassifier(**SETTINGS).fit(inputs, numbers > 0)


def as_frame(inputs):
    """A table with a category whose effect only the rows that count should determine."""
    return pd.DataFrame({"size": inputs[:, 0], "kind": np.tile(list("abcd"), 10)})


TABLES = {
    "frame": as_frame,
    "list": np.ndarray.tolist,
    "array": np.asarray,
    **KINDS,
}


@pytest.mark.parametrize("kind", TABLES)
def test_rows_of_weight_zero_count_for_nothing(rows, kind):
    """Not for the likelihood, the encoder or the classes, whatever their cells hold."""
    table, weights = TABLES[kind](rows[0]), np.where(np.arange(40) < 30, 1.0, 0.0)
    spoiled = np.where(weights == 0, 1e9, rows[1])
    kept = table[:30] if kind != "coo_array" else table.tocsr()[:30]
    model = bb.BBAlphaRegressor(**SETTINGS).fit(table, spoiled, sample_weight=weights)
    alone = bb.BBAlphaRegressor(**SETTINGS).fit(kept, rows[1][:30])
    assert model.likelihood_ == alone.likelihood_ == "heteroscedastic"
    np.testing.assert_array_equal(model.predict(kept), alone.predict(kept))
    labels = np.where(weights == 0, "unseen", np.where(rows[1] > 0, "yes", "no")).tolist()
    model = bb.BBAlphaClassifier(**SETTINGS).fit(table, labels, sample_weight=weights)
    assert model.classes_.tolist() == ["no", "yes"]


def test_rows_of_weight_zero_count_for_nothing_in_pieces(rows):
    weights = np.where(np.arange(40) < 30, 1.0, 0.0)
    spoiled = np.where(weights == 0, 1e9, rows[1])
    frame = as_frame(rows[0])
    model = bb.BBAlphaRegressor(**SETTINGS).partial_fit(frame, spoiled, sample_weight=weights)
    alone = bb.BBAlphaRegressor(**SETTINGS).partial_fit(frame[:30], rows[1][:30])
    np.testing.assert_array_equal(model.predict(frame), alone.predict(frame))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.partial_fit(frame, spoiled, sample_weight=weights[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_inputs_are_the_same_as_dense_ones(rows, models, kind):
    inputs, numbers = rows
    given = KINDS[kind](inputs)
    for model, targets in zip(models, (numbers, numbers > 0), strict=True):
        other = type(model)(**SETTINGS).fit(given, targets)
        np.testing.assert_array_equal(other.predict(given), model.predict(inputs))
        np.testing.assert_array_equal(
            other.score_samples(given, targets), model.score_samples(inputs, targets)
        )
        np.testing.assert_array_equal(other.outside(given), model.outside(inputs))
        np.testing.assert_array_equal(other.sample_y(given), model.sample_y(inputs))


def test_sparse_inputs_too_large_to_be_dense_are_refused(models):
    large = sparse.coo_array((MOST_CELLS // 3 + 1, 3))
    message = r"X must have at most 268,435,456 cells, .*; got shape \(89478486, 3\) with"
    for model in models:
        with pytest.raises(ValueError, match=message):
            model.predict(large)
        with pytest.raises(ValueError, match=message):
            type(model)(**SETTINGS).fit(large, np.zeros(large.shape[0], np.int8))


TEXTS = {
    "list": ["1.5", "2"],
    "array": np.array(["1.5", "2"]),
    "objects": np.array(["1.5", "2"], object),
    "some": np.array([1.0, "1.5"], object),
    "columns": np.array([["1.5", "1"], ["2", "2"]]),
    "variable": np.array(["1.5", "2"], np.dtypes.StringDType()),
    "series": pd.Series(["1.5", "2"]),
    "categories": pd.Series(["1.5", "2"], dtype="category"),
    "frame": pd.DataFrame({"y": ["1.5", "2"]}),
}


@pytest.mark.parametrize("name", TEXTS)
def test_numbers_written_as_texts_are_refused_as_targets(name):
    message = r"^y must hold numbers; got '1.5'\. Convert texts with y\.astype\(float\)\.$"
    with pytest.raises(ValueError, match=message):
        bb.BBAlphaRegressor(**SETTINGS).fit([[0.0], [1.0]], TEXTS[name])


def test_days_and_bytes_are_refused_as_targets():
    days = np.array(["2020-01-01", "2020-01-02"], "M8[D]")
    with pytest.raises(ValueError, match=r"^y must hold numbers; got '2020-01-01'\.$"):
        bb.BBAlphaRegressor(**SETTINGS).fit([[0.0], [1.0]], days)
    with pytest.raises(ValueError, match=r"^y must hold numbers; got \"b'1'\"\.$"):
        check_numbers(np.array([b"1", b"2"]))


def test_complex_numbers_are_refused_without_repeating_them(rows, models):
    inputs, numbers = rows
    message = r"^Complex data not supported: {} must hold real numbers; got the type complex128\.$"
    for model, targets in zip(models, (numbers, numbers > 0), strict=True):
        new = type(model)(**SETTINGS)
        with pytest.raises(ValueError, match=message.format("X")):
            new.fit(inputs + 1j, targets)
        with pytest.raises(ValueError, match=message.format("y")):
            new.fit(inputs, targets + 1j)
        with pytest.raises(ValueError, match=message.format("sample_weight")):
            new.fit(inputs, targets, np.ones(len(inputs)) + 0j)
        with pytest.raises(ValueError, match=message.format("X")):
            model.predict(inputs + 1j)


@pytest.mark.parametrize(
    "numbers",
    [
        [1, 2.5],
        np.array([1, 2.5], object),
        pd.Series([1, 2], dtype="Int64"),
        np.array([True, False]),
        np.array([[1.0, 2.0], [3.0, 4.0]], np.float32),
    ],
    ids=["list", "objects", "nullable", "flags", "matrix"],
)
def test_numbers_of_every_type_are_targets(numbers):
    check_numbers(numbers)


@pytest.mark.parametrize("kind", [bb.BBAlphaRegressor, bb.BBAlphaClassifier])
@pytest.mark.parametrize("inputs", [np.eye(3), pd.DataFrame(np.eye(3))], ids=["array", "frame"])
def test_a_fit_without_targets_is_refused(kind, inputs):
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        kind(**SETTINGS).fit(inputs, None)


ODD_LABELS = {
    "a gap": (["a", None], r"^y must have a label in every row; got None in row 1\.$"),
    "a gap among objects": (np.array(["a", None], object), r"got None in row 1\.$"),
    "a null": (["a\0", "a"], r"^y must hold labels that do not end in a null .* 'a\\x00' in row 0"),
    "a null in a series": (
        pd.Series(["a", "a\0"]),
        r"null character, .*; got 'a\\x00' in row 1\.$",
    ),
}


@pytest.mark.parametrize("name", ODD_LABELS)
def test_odd_labels_are_refused(name):
    labels, message = ODD_LABELS[name]
    with pytest.raises(ValueError, match=message):
        bb.BBAlphaClassifier(**SETTINGS).fit([[0.0], [1.0]], labels)


def test_whole_numbers_beyond_floats_are_refused(models):
    message = r"^X and y must hold numbers up to 1\.8e\+308 in size; got a larger one\.$"
    with pytest.raises(ValueError, match=message):
        bb.BBAlphaRegressor(**SETTINGS).fit([[0.0], [1.0]], [1, 10**400])
    with pytest.raises(ValueError, match=message):
        models[0].predict([[10**400, 1, 1]])


def test_weights_whose_sum_overflows_are_refused():
    message = r"^sample_weight must have a sum that is a number in float32; got a sum of 2e\+300\.$"
    with pytest.raises(ValueError, match=message):
        bb.BBAlphaRegressor(**SETTINGS).fit([[0.0], [1.0]], [1.0, 2.0], [1e300, 1e300])


ODD_FRAMES = {
    "half a letter": (
        pd.DataFrame({"a": pd.Series(["\ud800", "b"], dtype=object)}),
        r"^column 'a' must hold Unicode text; got '\\ud800', half of a pair of surrogates ",
    ),
    "half a name": (
        pd.DataFrame([[1.0], [2.0]], columns=pd.Index(["\ud800"], dtype=object)),
        r"^the table must have column names of .* printable characters; got '\\ud800' for column 1",
    ),
    "names twice": (
        pd.DataFrame(np.eye(2), columns=["a", "a"]),
        r"^the table has more than one column named 'a'\.$",
    ),
}


@pytest.mark.parametrize("name", ODD_FRAMES)
def test_odd_frames_are_refused(name):
    frame, message = ODD_FRAMES[name]
    with pytest.raises(ValueError, match=message) as caught:
        bb.BBAlphaRegressor(**SETTINGS).fit(frame, [1.0, 2.0])
    assert str(caught.value).isprintable()


def test_a_checkpoint_needs_a_seed(tmp_path):
    model = bb.BBAlphaRegressor(**SETTINGS | {"random_state": None})
    message = (
        r"^random_state must be set if checkpoint is given, so that the same call goes on; "
        r"got random_state=None\.$"
    )
    with pytest.raises(ValueError, match=message):
        model.fit([[0.0], [1.0]], [1.0, 2.0], checkpoint=tmp_path)


def test_quantiles_below_the_smallest_numbers_are_refused(rows, models):
    message = r"^quantiles must be at least 1e-37; got quantiles=\[1e-320, 0\.5\]\.$"
    with pytest.raises(ValueError, match=message):
        models[0].predict_quantiles(rows[0], (1e-320, 0.5))
    assert np.isfinite(models[0].predict_quantiles(rows[0], (1e-37, 1 - 1e-16))).all()
