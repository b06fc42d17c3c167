"""What it costs to load models at the bounds of what a file may hold, and to predict three rows.

PYTHONPATH=tests python tests/fuzz/largest_models.py
"""

import tempfile
import time
from pathlib import Path

import numpy as np
from fuzz.bounded import forgotten_peak, peak
from fuzz.fuzz_models import predict
from fuzz.model_files import untrained

import bbalpha as bb


def measure(num_units, num_draws):
    inputs = np.linspace(0, 1, 60).reshape(30, 2)
    settings = {"num_predictive_samples": num_draws}
    model = untrained(bb.BBAlphaRegressor((num_units,), **settings), inputs, inputs[:, 0])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        model.save(path)
        before, start = forgotten_peak(), time.process_time()
        predict(bb.BBAlphaRegressor.load(path))
    seconds, megabytes = time.process_time() - start, peak() - before
    size = model.posterior_.q.mean.size
    print(f"{num_draws:,} draws of {size:,} weights: {seconds:.1f} CPU s, {megabytes:.0f} MB.")


if __name__ == "__main__":
    measure(190, 10**6)
    measure(100_000, 1000)
