"""`Explorable`, the part of an estimator that writes a page about the effect of α."""

from pathlib import Path
from typing import Any


class Explorable:
    """An estimator that writes a page about itself."""

    verbose: Any

    def explore(
        self,
        path: str | Path,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        *,
        force: bool = False,
    ) -> None:
        """Write an HTML page that shows how the predictions change with α.

        Copies of the estimator are fitted to the same rows at α = −1, 0, ¼, ½ and 1, which takes
        about as long as five fits. A slider on the page moves between them and this model. The
        page is a single file of at most 2 MB that needs no network. It holds up to 500 of the rows,
        so do not share it with people who must not see them.

        Args:
            path: The page to write. An earlier page of bbalpha is replaced.
            X: The inputs that the model was fitted to; the model does not keep them.
            y: The targets that it was fitted to.
            sample_weight: The weights of the rows, if `fit` was given any.
            force: Replace the file, whatever it holds.

        Raises:
            ValueError: If X or y are missing, have fewer than three rows or do not suit the model,
                or if the file holds something else.
        """
        from bbalpha.explorer.exploring import Table, explore

        if X is None or y is None:
            missing = " and ".join(
                name for name, value in {"X": X, "y": y}.items() if value is None
            )
            raise ValueError(
                "X and y must be the rows that the model was fitted to, because it does not keep "
                f"them; got {missing}=None."
            )
        table = Table.of(self, X, y, sample_weight)
        explore(Path(path), self, table, show=bool(self.verbose), force=force)
