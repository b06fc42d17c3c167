"""MLflow: a fitted estimator as a `pyfunc` model around a predictor file, without any pickle.

MLflow's own scikit-learn flavor stores estimators either with skops, which cannot handle ours, or
with cloudpickle, which executes what it reads and needs jax to predict.
"""

import importlib.metadata
import tempfile
from pathlib import Path
from typing import Any

import pandas

from bbalpha.predictor import Predictor

FILE = "model.predictor"
LEVELS = (0.05, 0.5, 0.95)
REQUIREMENTS = ("numpy", f"bbalpha=={importlib.metadata.version('bbalpha')}")


def save_model(model: Any, path: str | Path, **settings: Any) -> None:
    """Write a fitted estimator, or a file written by `bbalpha export`, as an MLflow model.

    `mlflow.pyfunc.load_model(path).predict(frame)` then returns a DataFrame with the columns mean,
    std, q0.05, q0.5 and q0.95 or, for classes, the prediction and the probability of every class.
    If the signature of the model has a parameter `quantiles`, it selects other levels.

    Args:
        model: The estimator, or the path of a predictor file.
        path: The folder to create.
        settings: Further arguments of `mlflow.pyfunc.save_model`, such as `signature`.

    Raises:
        ImportError: If mlflow is not installed.
    """
    _store(model, _pyfunc().save_model, {"path": str(path)} | settings)


def log_model(model: Any, name: str, **settings: Any) -> Any:
    """Log a model like that of `save_model` to the active MLflow run; return its `ModelInfo`.

    Args:
        model: The estimator, or the path of a predictor file.
        name: The name of the model in the run.
        settings: Further arguments of `mlflow.pyfunc.log_model`, such as `registered_model_name`.

    Raises:
        ImportError: If mlflow is not installed.
    """
    return _store(model, _pyfunc().log_model, {"name": name} | settings)


def _pyfunc() -> Any:
    try:
        import mlflow.pyfunc
    except ImportError:
        remedy = "pip install 'bbalpha[mlflow]'"
        raise ImportError(f"models for MLflow need mlflow or mlflow-skinny: {remedy}.") from None
    return mlflow.pyfunc


def _store(model: Any, function: Any, settings: dict[str, Any]) -> Any:
    settings = {"loader_module": __name__, "pip_requirements": list(REQUIREMENTS)} | settings
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FILE
        if isinstance(model, str | Path):
            path.write_bytes(Path(model).read_bytes())
            Predictor.load(path)  # or raise
        else:
            model.export(path)
        return function(data_path=str(path), **settings)


def _load_pyfunc(data_path: str) -> "Served":
    """The function that MLflow calls to load a model."""
    path = Path(data_path)
    return Served(Predictor.load(path / FILE if path.is_dir() else path))


class Served:
    """A predictor with the interface that MLflow expects."""

    def __init__(self, predictor: Predictor):
        """Store the predictor."""
        self.predictor = predictor

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> pandas.DataFrame:
        """A row of predictions for every row of the input."""
        predictor, index = self.predictor, None
        if isinstance(model_input, pandas.DataFrame | pandas.Series):
            index = model_input.index
        if predictor.feature_names is None and hasattr(model_input, "to_numpy"):
            model_input = model_input.to_numpy()
        if predictor.classes_ is not None:
            probabilities = predictor.predict_proba(model_input)
            names = [f"p_{label}" for label in predictor.classes_]
            table = pandas.DataFrame(probabilities, index, pandas.Index(names))
            table.insert(0, "prediction", predictor.classes_[probabilities.argmax(axis=1)])
            return table
        levels = [float(level) for level in (params or {}).get("quantiles", LEVELS)]
        mean, std = predictor.predict(model_input, return_std=True)
        quantiles = predictor.predict_quantiles(model_input, levels)
        columns = {"mean": mean, "std": std}
        columns |= {f"q{level!r}": quantiles[..., place] for place, level in enumerate(levels)}
        if mean.ndim > 1:
            columns = {
                f"{name}_{number}": column[:, number]
                for number in range(mean.shape[1])
                for name, column in columns.items()
            }
        return pandas.DataFrame(columns, index)
