"""A model comes back from MLflow as it was, without pickle; a wrong file is refused."""

import numpy as np
import pandas
import pytest
from problems.invented import invented

import bbalpha as bb
from bbalpha.interfaces.mlflow import log_model, save_model

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


def test_a_file_that_is_no_predictor_is_refused(mlflow, tmp_path):
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"model\.predictor is not a complete safetensors file"):
        save_model(tmp_path / "table.csv", tmp_path / "model")
    assert not (tmp_path / "model").exists()
