"""A predictor says what its estimator says, in a process where jax cannot be imported."""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest
from problems.invented import invented

import bbalpha as bb
from bbalpha.files import model_file
from bbalpha.predictor import Predictor

LEVELS = (0.001, 0.05, 0.5, 0.95, 0.999)
CLOSE = 1e-5  # relative to the deviation of the prediction
REGRESSIONS = {
    "gaussian": ("tanh", None),
    "heteroscedastic": ("relu", 2),
    "student_t": ("softplus", None),
    "poisson": ("logistic", None),
    "negative_binomial": ("relu", None),
}
CLASSIFICATIONS = {"softmax": np.array(["a", "b", "c"]), "probit": np.array([False, True])}

# Only the standard library, NumPy and bbalpha may be imported.
ALONE = """
import importlib.abc, json, sys
from pathlib import Path

class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "numpy", "bbalpha"}:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)

sys.meta_path.insert(0, Blocker())
import numpy as np
from bbalpha.predictor import Predictor

for path in Path(sys.argv[1]).glob("*.predictor"):
    given = np.load(path.with_suffix(".npz"))
    predictor, new = Predictor.load(path), given["new"]
    if "y" in given:
        found = dict(zip(("mean", "std"), predictor.predict(new, return_std=True)))
        found["quantiles"] = predictor.predict_quantiles(new, given["levels"])
        found["densities"] = predictor.score_samples(new, given["y"])
    else:
        found = {"probabilities": predictor.predict_proba(new), "labels": predictor.predict(new)}
        found["densities"] = predictor.score_samples(new, found["labels"])
    found["outside"] = predictor.outside(new)
    np.savez(path.with_suffix(".found.npz"), **found)
assert "jax" not in sys.modules
"""


def new_rows():
    """Rows within the limits of the inputs, and rows beyond them."""
    stream = np.random.RandomState(3)
    return np.concatenate([stream.normal(size=(5, 2)), 40 * stream.normal(size=(3, 2))])


def estimator_of(likelihood):
    """An estimator with that likelihood, whose posterior is invented."""
    settings = {"hidden_layer_sizes": (4, 3), "num_predictive_samples": 200}
    if likelihood in CLASSIFICATIONS:
        model = bb.BBAlphaClassifier(likelihood=likelihood, **settings)
        return invented(model, classes=CLASSIFICATIONS[likelihood])
    activation, num_outputs = REGRESSIONS[likelihood]
    model = bb.BBAlphaRegressor(likelihood=likelihood, activation=activation, **settings)
    return invented(model, num_outputs=num_outputs)


def expected_of(model, new):
    """What the estimator says."""
    if hasattr(model, "classes_"):
        labels = model.classes_[np.arange(len(new)) % 2]
        probabilities, _ = model._described(new, labels)
        found = {"probabilities": probabilities, "labels": model.classes_[probabilities.argmax(1)]}
        return found | {"densities": model.score_samples(new), "outside": model.outside(new)}
    targets = np.arange(len(new) * model.n_outputs_).reshape(len(new), -1) % 7 * 1.0
    targets = targets[:, 0] if model._is_vector else targets
    described = model._described(new, LEVELS, targets)
    found = {"mean": described.mean, "std": described.std, "quantiles": described.quantiles}
    densities, outside = described.log_densities, model.outside(new)
    return found | {"densities": densities, "outside": outside, "y": targets, "levels": LEVELS}


@pytest.fixture(scope="module")
def without_jax(tmp_path_factory):
    """What estimators say and, by likelihood, what their predictors say without jax."""
    folder, new = tmp_path_factory.mktemp("predictors"), new_rows()
    expected = {}
    for likelihood in [*REGRESSIONS, *CLASSIFICATIONS]:
        model = estimator_of(likelihood)
        model.export(folder / f"{likelihood}.predictor")
        expected[likelihood] = expected_of(model, new)
        given = {
            name: expected[likelihood][name]
            for name in ("y", "levels")
            if name in expected[likelihood]
        }
        np.savez(folder / f"{likelihood}.npz", new=new, **given)
    command = [sys.executable, "-W", "error", "-c", ALONE, folder]
    subprocess.run(command, check=True)
    found = {name: dict(np.load(folder / f"{name}.found.npz")) for name in expected}
    return expected, found


@pytest.mark.parametrize("likelihood", REGRESSIONS)
def test_a_regressor_without_jax_is_the_estimator(likelihood, without_jax):
    expected, found = (x[likelihood] for x in without_jax)
    deviation = expected["std"]
    assert np.all(np.abs(found["mean"] - expected["mean"]) < CLOSE * deviation)
    assert np.all(np.abs(found["std"] - expected["std"]) < CLOSE * deviation)
    apart = np.abs(found["quantiles"] - expected["quantiles"])
    assert np.all(apart < CLOSE * deviation[..., None])
    np.testing.assert_allclose(found["densities"], expected["densities"], rtol=CLOSE, atol=CLOSE)
    np.testing.assert_array_equal(found["outside"], expected["outside"])
    assert 0 < found["outside"].sum() < len(found["outside"])


@pytest.mark.parametrize("likelihood", CLASSIFICATIONS)
def test_a_classifier_without_jax_is_the_estimator(likelihood, without_jax):
    expected, found = (x[likelihood] for x in without_jax)
    np.testing.assert_allclose(found["probabilities"], expected["probabilities"], atol=1e-6)
    np.testing.assert_allclose(found["densities"], expected["densities"], rtol=CLOSE, atol=CLOSE)
    np.testing.assert_array_equal(found["labels"], expected["labels"])


@pytest.mark.parametrize("likelihood", [*REGRESSIONS, *CLASSIFICATIONS])
def test_draws_of_targets_have_the_predictive_moments(likelihood, tmp_path):
    estimator_of(likelihood).export(tmp_path / "model.predictor")
    predictor, num = Predictor.load(tmp_path / "model.predictor"), 4000
    new = new_rows()[:4]
    draws = predictor.sample_y(new, num, random_state=1)
    np.testing.assert_array_equal(predictor.sample_y(new, num, random_state=1), draws)
    if predictor.classes_ is None:
        mean, deviation = predictor.predict(new, return_std=True)
        assert draws.shape == (*mean.shape, num)
    else:
        mean = predictor.predict_proba(new)[:, 0]
        deviation, draws = np.sqrt(mean * (1 - mean)), draws == predictor.classes_[0]
    assert np.all(np.abs(draws.mean(axis=-1) - mean) < 4 * deviation / np.sqrt(num))


def test_fewer_draws_are_the_first_ones_and_make_a_smaller_file(tmp_path):
    model = estimator_of("gaussian")
    model.export(tmp_path / "all.predictor")
    model.export(tmp_path / "some.predictor", num_draws=50)
    some, whole = (Predictor.load(tmp_path / f"{name}.predictor") for name in ("some", "all"))
    assert (some.num_draws, whole.num_draws) == (50, 200)
    first = whole._contents.network.take(np.arange(50))
    for expected, found in zip(first.heads, some._contents.network.heads, strict=True):
        np.testing.assert_array_equal(found["weights"], expected["weights"])
    saved = 150 * model._network().size * 4
    sizes = [(tmp_path / f"{name}.predictor").stat().st_size for name in ("all", "some")]
    assert abs(sizes[0] - sizes[1] - saved) < 8  # the header is padded
    with pytest.raises(ValueError, match="num_draws must be at least 1; got num_draws=0"):
        model.export(tmp_path / "none.predictor", num_draws=0)


def test_a_model_of_a_table_takes_its_rows(houses, rows, tmp_path, encoder):
    from bbalpha.tables.transformer import TableEncoder

    settings = {"hidden_layer_sizes": (3,), "num_predictive_samples": 50}
    model = invented(bb.BBAlphaRegressor(**settings), len(encoder.feature_names))
    model.encoder_ = TableEncoder.from_encoder(encoder)
    model.export(tmp_path / "houses.predictor")
    predictor = Predictor.load(tmp_path / "houses.predictor")
    assert predictor.feature_names == ["rooms", "area", "town", "street", "new", "sold"]
    expected, deviation = model.predict(houses, return_std=True)
    for X in (rows, houses, {name: [row[name] for row in rows] for name in rows[0]}):
        assert np.all(np.abs(predictor.predict(X) - expected) < CLOSE * deviation)
    with pytest.raises(ValueError, match=r"X must be rows with the columns rooms, area, town, s"):
        predictor.predict(np.zeros((2, 7)))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model with named inputs, its predictor and its file."""
    path = tmp_path_factory.mktemp("saved") / "model.predictor"
    settings = {"hidden_layer_sizes": (), "num_predictive_samples": 20}
    model = invented(bb.BBAlphaRegressor(**settings), names=["height", "weight"])
    model.export(path)
    return model, Predictor.load(path), path


def test_named_inputs_may_come_as_objects_in_any_order(saved):
    predictor = saved[1]
    rows = [{"weight": 2.0, "height": 1.0}, {"weight": 4, "height": 3}]
    expected = predictor.predict([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(predictor.predict(rows), expected)
    with pytest.raises(ValueError, match="X must have the column 'height'"):
        predictor.predict([{"weight": 2.0, "size": 1.0}])
    with pytest.raises(ValueError, match="X must hold finite numbers; got nan in row 0, column 1"):
        predictor.predict([{"weight": None, "height": 1.0}])


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("predict", ([[1.0]],), r"X must have shape \(rows, 2\); got \(1, 1\)\."),
        ("predict", ([],), r"X must have at least one row; got none\."),
        ("predict", ([["a", "b"]],), "X must be a matrix of numbers with 2 columns; got list"),
        (
            "predict_quantiles",
            ([[1.0, 2.0]], 1.5),
            r"quantiles must lie between 0 and 1; got .*1\.5",
        ),
        (
            "predict_interval",
            ([[1.0, 2.0]], 0),
            "coverage must lie between 0 and 1; got coverage=0",
        ),
        (
            "predict_proba",
            ([[1.0, 2.0]],),
            "predict_proba must be called on a classifier; got a reg",
        ),
        ("sample_y", ([[1.0, 2.0]], 0), "n_samples must be a positive integer; got n_samples=0"),
        ("score_samples", ([[1.0, 2.0]], [1, 2]), r"y must have 1 numbers for each of 1 rows; got"),
        (
            "score_samples",
            ([[1.0, 2.0]], [np.nan]),
            "y must hold finite numbers; got NaN or infinity",
        ),
    ],
)
def test_a_wrong_argument_gets_a_sentence(saved, method, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(saved[1], method)(*arguments)


def test_a_classifier_has_no_deviation_and_knows_its_labels(tmp_path):
    estimator_of("softmax").export(tmp_path / "model.predictor")
    predictor, rows = Predictor.load(tmp_path / "model.predictor"), new_rows()[:2]
    with pytest.raises(ValueError, match="return_std must be False for a classifier; got True"):
        predictor.predict(rows, return_std=True)
    with pytest.raises(ValueError, match="predict_quantiles must be called on a regressor"):
        predictor.predict_interval(rows)
    with pytest.raises(ValueError, match=r"y must hold the classes \['a', 'b', 'c'\]; got 'd'"):
        predictor.score_samples(rows, ["a", "d"])


# Files.


def test_a_damaged_file_is_refused_wherever_it_is_damaged(saved, tmp_path):
    content, path = saved[2].read_bytes(), tmp_path / "bad.predictor"
    for place in range(0, len(content), 7):
        bad = bytearray(content)
        bad[place] ^= 16
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=r"^bad\.predictor (is|has) .*\.$"):
            Predictor.load(path)
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"^bad\.predictor is .*\.$"):
            Predictor.load(path)


def test_a_foreign_file_is_refused(saved, tmp_path):
    model, _, predictor_path = saved
    path = tmp_path / "other.safetensors"
    with pytest.raises(FileNotFoundError, match=r"there is no file .*other\.safetensors\."):
        Predictor.load(path)
    model.save(path)
    with pytest.raises(ValueError, match=r"other\.safetensors is a bbalpha model, not a bbalpha p"):
        Predictor.load(path)
    with pytest.raises(
        ValueError, match=r"model\.predictor is a bbalpha predictor, not a bbalpha m"
    ):
        bb.BBAlphaRegressor.load(predictor_path)
    path.write_text("inputs,targets\n1,2\n")
    with pytest.raises(ValueError, match=r"other\.safetensors is not a complete safetensors file"):
        Predictor.load(path)


@pytest.mark.parametrize(("version", "remedy"), [(2, "Update bbalpha"), (0, "Export the model ag")])
def test_another_version_is_named(saved, tmp_path, version, remedy):
    with pytest.raises(ValueError, match=f"has format version {version}; this .* 1. {remedy}"):
        Predictor.load(forged(saved, tmp_path, {}, version))


@pytest.mark.parametrize(
    "change",
    [
        *({"layers": []}, {"layers": None}, {"layers": [["heads", 0, "biases", [-1]]]}),
        *({"activation": "abs"}, {"likelihood": "cauchy"}, {"likelihood": "gaussian"}),
        *(
            {"inputs": {}},
            {"inputs": {"mean": [0]}},
            {"outputs": {"mean": [0, 1], "scale": [1, 1]}},
        ),
        *({"outputs": {"mean": [0], "scale": [0]}}, {"outputs": {"mean": [0], "scale": ["x"]}}),
        *({"limits": [[0], [float("nan")]]}, {"limits": [[0, 0, 0], [1, 1, 1]]}, {"limits": 3}),
        *({"noise": {"x": [1]}}, {"noise": {"log_variance": [0, 0, 0]}}),
        *({"classes": ["a", "b"], "kind": "U"}, {"names": ["a"]}, {"is_vector": None, "names": 3}),
        *(
            {"table": {"columns": [], "missing": [], "others": []}},
            {"table": {"columns": 3, "missing": [], "others": []}},
        ),
        {"table": {"columns": [{"kind": "number", "name": "a"}], "missing": [], "others": []}},
    ],
)
def test_a_forged_file_is_refused(saved, tmp_path, change):
    with pytest.raises(ValueError, match=r"^forged\.predictor is not a valid bbalpha predictor: "):
        Predictor.load(forged(saved, tmp_path, change))


def forged(saved, folder, change, version=None):
    """The file with other facts and a right checksum."""
    _, predictor, path = saved
    header = json.loads(path.read_bytes()[8:].partition(b"}}")[0] + b"}}")
    facts = json.loads(header["__metadata__"]["bbalpha-predictor"]) | change
    kind = model_file.PREDICTOR
    kind = kind if version is None else kind._replace(version=version)
    draws = np.concatenate(
        [
            leaf.reshape(predictor.num_draws, -1)
            for leaf in jax.tree.leaves(predictor._contents.network.heads)
        ],
        axis=1,
    )
    model_file.write(folder / "forged.predictor", {"draws": draws}, facts, kind)
    return folder / "forged.predictor"


def test_an_unchanged_forgery_is_read(saved, tmp_path):
    found = Predictor.load(forged(saved, tmp_path, {})).predict([[1.0, 2.0]])
    np.testing.assert_array_equal(found, saved[1].predict([[1.0, 2.0]]))
