"""scikit-learn's own checks of an estimator."""

import json
import os
import subprocess
import sys

import pytest

# What scikit-learn itself lists for its own stochastic-gradient estimators (SGDRegressor,
# SGDClassifier, Perceptron), and why: minibatches and their noise differ when a row is there twice.
# That weights and repetitions have the same energy and optimum is tested in test_estimator.py.
EXPECTED_FAILURES = {
    f"check_sample_weight_equivalence_on_{kind}_data": (
        "sample_weight is not equivalent to removing/repeating samples."
    )
    for kind in ("dense", "sparse")
}

# The checks fit more than a hundred models of some twenty shapes, and nearly all of the time goes
# into tracing and compiling these. So the checks run in a process of their own in which XLA hardly
# optimizes: this takes a third of the time and leaves the programs of other tests alone. A small
# program suffices, because only check_classifiers_train and check_regressors_train ask for a good
# fit. The slow tests run the network that users get by default, optimized.
SETTINGS = {
    "hidden_layer_sizes": (),
    "learning_rate": 0.01,
    "max_epochs": 20,
    "num_samples": 10,
    "num_predictive_samples": 100,
}
ENVIRONMENT = {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "JAX_TRACEBACK_IN_LOCATIONS_LIMIT": "0",
    "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
}
CODE = """
import gc, json, sys, warnings
from sklearn.utils.estimator_checks import check_estimator
import bbalpha as bb

gc.disable()  # the collector takes a tenth of the time of tracing
name, settings, expected = json.loads(sys.argv[1])
warnings.simplefilter("ignore")  # the checks provoke warnings of scikit-learn's own
estimator = getattr(bb, name)(**settings)
results = check_estimator(estimator, expected_failed_checks=expected, on_fail=None)
print(json.dumps([[row["check_name"], row["status"], repr(row["exception"])] for row in results]))
"""


@pytest.mark.parametrize(
    ("settings", "environment"),
    [
        pytest.param(SETTINGS, ENVIRONMENT, id="small"),
        pytest.param({"max_epochs": 20}, {}, id="default", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", ["BBAlphaRegressor", "BBAlphaClassifier"])
def test_scikit_learns_checks_pass(name, settings, environment):
    arguments = json.dumps([name, settings, EXPECTED_FAILURES])
    process = subprocess.run(
        [sys.executable, "-c", CODE, arguments],
        env=environment | os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    results = json.loads(process.stdout)
    assert not [row for row in results if row[1] == "failed"]
    assert sum(status == "passed" for _, status, _ in results) > 50
