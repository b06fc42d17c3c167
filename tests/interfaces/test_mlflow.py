"""A model comes back from MLflow as it was, without pickle; a wrong file is refused."""

import numpy as np
import pandas
import pytest
from problems.invented import invented

import bbalpha as bb
from bbalpha.interfaces.exporting import export
from bbalpha.interfaces.mlflow import log_model, save_model
from bbalpha.tables import Encoder

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        mlflow = pytest.importorskip("mlflow")
        pytest.importorskip("mlflow.pyfunc")
        mlflow.set_tracking_uri(tmp_path_factory.mktemp("runs").as_uri())
        mlflow.set_experiment("tests")
        yield mlflow


SETTINGS = {"hidden_layer_sizes": (3,), "num_predictive_samples": 30}
ROWS = pandas.DataFrame({"height": [1.0, 2.0, -1.0], "weight": [0.5, -0.5, 0.0]}, index=[7, 8, 9])


def test_a_saved_regressor_predicts_the_same_and_its_folder_holds_no_pickle(mlflow, tmp_path):
    model = invented(bb.BBAlphaRegressor(**SETTINGS), names=["height", "weight"])
    save_model(model, tmp_path / "model")
    found = mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(ROWS)
    described = model._described(ROWS, (0.05, 0.5, 0.95))
    assert found.index.tolist() == [7, 8, 9]
    for name, expected in {"mean": described.mean, "std": described.std}.items():
        assert np.all(np.abs(found[name] - expected) < 1e-5 * described.std)
    quantiles = found[["q0.05", "q0.5", "q0.95"]]
    assert np.all(np.abs(quantiles - described.quantiles) < 1e-5 * described.std[:, None])
    files = [path for path in (tmp_path / "model").rglob("*") if path.is_file()]
    assert not [path for path in files if path.suffix in (".pkl", ".pickle", ".joblib")]
    requirements = (tmp_path / "model" / "requirements.txt").read_text().splitlines()
    assert f"bbalpha=={bb.__version__}" in requirements


def test_a_logged_file_of_a_classifier_predicts_labels_and_probabilities(mlflow, tmp_path):
    model = invented(bb.BBAlphaClassifier(**SETTINGS), classes=["no", "yes"])
    model.export(tmp_path / "labels.predictor")
    with mlflow.start_run():
        info = log_model(tmp_path / "labels.predictor", "labels")
    found = mlflow.pyfunc.load_model(info.model_uri).predict(ROWS)
    probabilities = model.predict_proba(ROWS.to_numpy())
    np.testing.assert_allclose(found[["p_no", "p_yes"]], probabilities, atol=1e-6)
    assert found["prediction"].tolist() == model.predict(ROWS.to_numpy()).tolist()


def test_the_signature_may_have_other_quantiles(mlflow, tmp_path):
    model = invented(bb.BBAlphaRegressor(**SETTINGS), names=["height", "weight"])
    signature = mlflow.models.infer_signature(ROWS, params={"quantiles": [0.1, 0.9]})
    save_model(model, tmp_path / "model", signature=signature)
    served = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    assert list(served.predict(ROWS)) == ["mean", "std", "q0.1", "q0.9"]
    found = served.predict(ROWS, params={"quantiles": [0.25, 0.5, 0.75]})
    assert list(found) == ["mean", "std", "q0.25", "q0.5", "q0.75"]
    expected = model._described(ROWS, (0.25, 0.5, 0.75))
    apart = np.abs(found[["q0.25", "q0.5", "q0.75"]] - expected.quantiles)
    assert np.all(apart < 1e-5 * expected.std[:, None])


@pytest.mark.parametrize("names", [None, ["height", "weight"]])
def test_lists_of_rows_are_predicted_like_frames(mlflow, tmp_path, names):
    model = invented(bb.BBAlphaRegressor(**SETTINGS), names=names)
    save_model(model, tmp_path / "model")
    served = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    expected = served.predict(ROWS)
    found = served.predict(ROWS.to_dict("records") if names else ROWS.to_numpy().tolist())
    np.testing.assert_array_equal(found, expected)
    assert found.index.tolist() == [0, 1, 2]


def test_a_model_of_a_table_predicts_frames_and_rows(mlflow, tmp_path):
    table = ROWS.assign(town=["Ely", "Wells", "Ely"])
    encoder = Encoder.learn(pandas.concat([table] * 20, ignore_index=True))
    model = invented(bb.BBAlphaRegressor(**SETTINGS), num_features=len(encoder.feature_names))
    export(tmp_path / "table.predictor", model, None, encoder, "price", ())
    save_model(tmp_path / "table.predictor", tmp_path / "model")
    served = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    expected = model._described(encoder.encode(table), (0.05, 0.5, 0.95))
    for rows in (table, table.to_dict("records")):
        found = served.predict(rows)
        assert np.all(np.abs(found["mean"] - expected.mean) < 1e-5 * expected.std)
        assert np.all(np.abs(found["std"] - expected.std) < 1e-5 * expected.std)


def test_a_file_that_is_no_predictor_is_refused(mlflow, tmp_path):
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"model\.predictor is not a complete safetensors file"):
        save_model(tmp_path / "table.csv", tmp_path / "model")
    assert not (tmp_path / "model").exists()
