"""`Portable`, the part of an estimator that is about files: `save`, `load` and `export`."""

from pathlib import Path
from typing import Any, TypeVar

from sklearn.utils.validation import check_is_fitted

from bbalpha.interfaces import estimator_file
from bbalpha.interfaces.exporting import export

Self = TypeVar("Self", bound="Portable")


class Portable:
    """An estimator that can be moved to other processes and machines."""

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to a safetensors file, which holds no code.

        Rows that `partial_fit` keeps are not written: after loading, the posterior becomes the
        prior of the next piece.
        """
        check_is_fitted(self)
        estimator_file.write(path, self)

    @classmethod
    def load(cls: type[Self], path: str | Path) -> Self:
        """Read an estimator that `save` wrote; nothing in the file is executed.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If it is damaged, has another format version, or holds another class.
        """
        estimator, _ = estimator_file.read(path, {cls.__name__: cls})
        return estimator

    def export(self, path: str | Path, num_draws: Any = None) -> None:
        """Write draws of the weights to a file that predicts with NumPy alone.

        `bbalpha.predictor.Predictor.load` reads it, without jax. The file holds no code; its size
        is the number of draws times the number of weights times 4 bytes.

        Args:
            path: The file to write, replaced if it exists.
            num_draws: Number of draws; by default `num_predictive_samples`, so that predictions
                equal the estimator's. Fewer draws make a smaller file and noisier predictions.

        Raises:
            OSError: If the file cannot be written; an existing file is then left as it was.
            ValueError: If `num_draws` is not a positive integer.
        """
        check_is_fitted(self)
        export(path, self, num_draws)
