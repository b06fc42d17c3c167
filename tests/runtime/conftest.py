"""A folder with rows for processes that fit together."""

import jax
import numpy as np
import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    inputs = np.asarray(jax.random.normal(jax.random.key(1), (60, 3)))
    labels = np.sign(inputs[:, :1] + 0.3)
    np.save(folder / "rows.npy", np.hstack([inputs, labels]).astype(np.float32))
    return folder
