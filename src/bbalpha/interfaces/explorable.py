"""What makes an estimator explorable: a page that shows what α does to its predictions."""

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
        about as long as so many fits. A slider on the page moves between them and this model. The
        page is one file of at most 2 MB that loads nothing; it holds up to 500 of the rows, so do
        not give it to people who must not see them.

        Args:
            path: The page. A page of bbalpha is replaced.
            X: The inputs that the model was fitted to, which it does not keep.
            y: Their targets.
            sample_weight: Their weights, if `fit` had any.
            force: Replace the file whatever it holds.

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
