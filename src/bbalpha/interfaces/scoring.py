"""A scorer for scikit-learn's model selection that rewards honest uncertainty."""

from typing import Any


def log_likelihood_score(model: Any, X: Any, y: Any) -> float:
    """Return the mean predictive log-density of the targets, in nats; higher is better.

    Unlike R² and accuracy, this score penalizes predictions that are too certain or too vague. Pass
    it as `scoring=` to `GridSearchCV`, `cross_val_score` and the like.

    Args:
        model: A fitted estimator of bbalpha, or a scikit-learn pipeline that ends with one.
        X: Inputs.
        y: Targets.

    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> x = np.linspace(-2, 2, 40)[:, None]
    >>> y = x[:, 0] + 0.1 * np.random.RandomState(0).normal(size=40)
    >>> model = bb.BBAlphaRegressor((), likelihood="gaussian", max_epochs=500, random_state=0)
    >>> grid = {"prior_scale": [0.01, 1.0], "learn_prior": [False]}
    >>> search = GridSearchCV(model, grid, scoring=bb.log_likelihood_score, cv=2)
    >>> search.fit(x, y).best_params_["prior_scale"]
    1.0
    """
    steps = getattr(model, "steps", None)
    if steps is not None:  # the pipeline's own `score_samples` takes no targets
        X, model = model[:-1].transform(X) if len(steps) > 1 else X, model[-1]
    return float(model.score_samples(X, y).mean())
