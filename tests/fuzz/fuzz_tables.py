"""Mutated tables: each is refused with a sentence or encoded and predicted, within bounds.

    PYTHONPATH=tests python tests/fuzz/fuzz_tables.py --files 10000 --record tables.jsonl
    PYTHONPATH=tests python tests/fuzz/fuzz_tables.py --only 123       # one table, with traceback

Every table is read and encoded as `bbalpha fit` does it, up to the arrays that training gets, for a
number and for a class to predict, and as `bbalpha predict` does it with small fitted models. A run
that was stopped goes on where its record ends.
"""

import json
import sys
from functools import cache

import numpy as np
import pyarrow
from fuzz.bounded import Fuzzer, check_sentence
from fuzz.table_files import NUM_ROWS, TARGETS, mutated, rows

from bbalpha.cli.doors import Refusal
from bbalpha.cli.predictions import predictions_of
from bbalpha.cli.saved import ESTIMATORS, Model
from bbalpha.cli.training_table import Intake, read_training_table
from bbalpha.tables import Encoder, TableError, Target, read_table

SECONDS = 30.0  # of CPU for one table
MEGABYTES = 1000  # that a table may add to the memory of the process
LEVELS = (0.05, 0.5, 0.95)
SETTINGS = {"hidden_layer_sizes": (3,), "max_epochs": 5, "num_samples": 5, "random_state": 0}


def used(path, done):
    """What becomes of a table: it is "refused", or used to train, to predict, or for both.

    Raises:
        AssertionError: If a message, a feature or a prediction breaks its rule.
        Exception: If something else goes wrong, which is a defect.
    """
    try:
        frame = read_table(path)
    except TableError as error:
        check_sentence(error)
        return "refused"
    can_train = [trains(path, name) for name in TARGETS]
    can_predict = [predicts(frame, model) for model in models()]
    words = ("trained on" if any(can_train) else "", "predicted" if any(can_predict) else "")
    return " and ".join(filter(None, words)) or "read, but neither trained on nor predicted"


def trains(path, target):
    """Whether a table can be used to train; the arrays that training would get are checked."""
    try:
        table = read_training_table(path, Intake(target, skip_missing_target=True), quiet=True)
    except Refusal as error:
        check_sentence(error)
        return False
    check_finite(table.inputs, "feature")
    check_words(column.words for column in table.encoder.columns)
    text = json.dumps(table.encoder.to_json(), allow_nan=False)
    assert Encoder.from_json(json.loads(text)) == table.encoder, "the encoder changes in a file"
    text = json.dumps(table.target.to_json(), allow_nan=False)
    assert Target.from_json(json.loads(text)) == table.target, "the target changes in a file"
    estimator = ESTIMATORS[table.target.task](())
    try:
        X, y = estimator._validated(table.inputs, table.targets, reset=True)
        arrays = estimator._rows(X, y, None, new_units=True)
    except ValueError as error:
        check_sentence(error)
        return False
    with np.errstate(over="ignore"):
        check_finite(arrays.inputs.astype(np.float32), "input")
        check_finite(arrays.targets.astype(np.float32), "target")
    return True


def predicts(frame, model):
    """Whether a model can predict the rows of a table; its predictions are checked."""
    try:
        found = model.encoder.read(frame, allowed=(model.target.name, *model.dropped))
    except TableError as error:
        check_sentence(error)
        return False
    check_words(found.notes)
    check_finite(found.features, "feature")
    for start in range(0, len(found.features), NUM_ROWS):
        part = found.features[start : start + NUM_ROWS]
        whole = np.resize(part, (NUM_ROWS, part.shape[1]))  # one compiled program for all
        predictions = predictions_of(model, whole, LEVELS)
        check_finite(predictions.select_dtypes("number").to_numpy(), "prediction")
    return True


def check_finite(array, what):
    bad = ~np.isfinite(array)
    assert not bad.any(), f"{int(bad.sum())} of {bad.size} {what}s are not finite"


def check_words(words):
    for text in words:
        assert text.isprintable(), f"not printable: {text!r}"


@cache
def models():
    """A small fitted model for each target."""
    header, *cells = rows()
    columns = dict(zip(header, map(list, zip(*cells, strict=True)), strict=True))
    inputs = pyarrow.table({name: columns[name] for name in header if name not in TARGETS})
    found = []
    for name, task in TARGETS.items():
        target = Target.learn(pyarrow.table(columns), name)
        assert target.task == task
        encoder, features = Encoder.learn_and_encode(inputs)
        targets = columns[name] if task == "classification" else np.array(columns[name], float)
        estimator = ESTIMATORS[task](**SETTINGS, num_predictive_samples=50)
        others = tuple(other for other in TARGETS if other != name)
        found.append(Model(estimator.fit(features, targets), encoder, target, others))
    return found


FUZZER = Fuzzer("tables", mutated, used, SECONDS, MEGABYTES)

if __name__ == "__main__":
    models()  # so that the first table does not pay for their fits
    sys.exit(FUZZER.command(__doc__.splitlines()[0], num_files=10_000))
