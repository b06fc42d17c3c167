"""Mutated model files: each is refused with a sentence or predicts finite numbers, within bounds.

    PYTHONPATH=tests python tests/fuzz/fuzz_models.py --files 20000 --record models.jsonl
    PYTHONPATH=tests python tests/fuzz/fuzz_models.py --only 123       # one file, with traceback

Every file is inspected, loaded and, if it loads, used to predict a few rows. A run that was
stopped goes on where its record ends.
"""

import sys

import numpy as np
import pyarrow as pa
from fuzz.bounded import Fuzzer, check_sentence
from fuzz.model_files import INPUTS, changed, mutated, originals, table

import bbalpha as bb
from bbalpha.cli.doors import Refusal
from bbalpha.cli.header import facts_in_words, facts_of_file
from bbalpha.cli.predictions import predictions_of
from bbalpha.cli.saved import CLASSES, read_model
from bbalpha.interfaces import estimator_file
from bbalpha.interfaces.finite import check_finite_rows, checked_summary

SECONDS = 30.0  # of CPU for one file, most of which is compiling
MEGABYTES = 2000  # that a file may add to the memory of the process
LEVELS = (0.05, 0.5, 0.95)

__all__ = ["changed", "originals", "used"]  # for the guided fuzzer


def used(path, done=()):
    """What becomes of a file: "refused", or "predicts" finite numbers.

    Raises:
        AssertionError: If a message or a prediction breaks its rule, or damage is read as good.
        Exception: If something else goes wrong, which is a defect.
    """
    outcome = inspected_and_loaded(path)
    is_damaged = done == ["damaged"] and path.read_bytes() not in originals()
    assert outcome == "refused" or not is_damaged, "a damaged file was read as good"
    return outcome


def inspected_and_loaded(path):
    inspect(path)
    try:
        estimator, described = estimator_file.read(path, CLASSES)
    except ValueError as error:
        check_sentence(error)
        return "refused"
    predict(estimator)
    if described is None:
        return "predicts"
    try:
        model = read_model(path)
    except Refusal as error:
        check_sentence(error)
        return "refused with its table"
    try:
        features = model.features(pa.Table.from_pandas(rows()), "other", quiet=True)
    except Refusal as error:  # the table lacks a column that the file names
        check_sentence(error)
        return "refused this table"
    predictions = predictions_of(model, features, LEVELS)
    check_finite_rows(predictions.select_dtypes("number").to_numpy())
    return "predicts"


def inspect(path):
    try:
        words = facts_in_words(facts_of_file(path))
    except Refusal as error:
        check_sentence(error)
        return
    assert all(text.isprintable() for text in words.values()), f"not printable: {words}"


def rows():
    """Rows of the table, the last one far outside and with a text that is new."""
    chosen = table()[INPUTS].head(3).copy()
    chosen.loc[2, ["size", "town"]] = [1e39, "elsewhere"]
    return chosen


def predict(estimator):
    """Predict a few rows and check that all predictions are finite."""
    if estimator.encoder_ is not None:
        inputs = rows()
    else:
        inputs = np.zeros((3, estimator.n_features_in_))
        inputs[1:] = [[1.0], [1e39]]
    if isinstance(estimator, bb.BBAlphaClassifier):
        check_finite_rows(estimator.predict_proba(inputs))
        return
    described = estimator._described(inputs, LEVELS)
    check_finite_rows((described.mean, described.quantiles))
    checked_summary(described.std, estimator.posterior_.hyperparams)


FUZZER = Fuzzer("model files", mutated, used, SECONDS, MEGABYTES)

if __name__ == "__main__":
    sys.exit(FUZZER.command(__doc__.splitlines()[0], num_files=20_000))
