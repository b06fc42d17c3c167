"""Facts about the transformer: what scikit-learn expects of one, in pipelines and in files."""

import json

import numpy as np
import pandas
import pyarrow
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import bbalpha as bb
from bbalpha.tables import Encoder


@parametrize_with_checks([bb.TableEncoder()])
def test_it_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def houses():
    rng = np.random.default_rng(0)
    rooms = rng.integers(1, 7, 200).astype(float)
    town = rng.choice(["Ely", "Ripon", "Wells"], 200)
    price = 60 * rooms + 80 * (town == "Wells") + rng.normal(size=200)
    day = pandas.Timestamp("2024-01-01") + pandas.to_timedelta(rng.integers(0, 90, 200), "D")
    rooms[::20] = np.nan
    frame = pandas.DataFrame({"rooms": rooms, "town": town, "day": day, "id": range(200)})
    return frame.astype({"town": "category"}), price


def test_a_pipeline_takes_a_frame_with_columns_of_every_type(houses):
    frame, price = houses
    model = make_pipeline(bb.TableEncoder(drop=["id"]), LinearRegression())
    model.fit(frame[:150], price[:150])
    assert model.score(frame[150:], price[150:]) > 0.8
    names = model[:-1].get_feature_names_out()
    assert names[:3].tolist() == ["rooms", "rooms is missing", "town=Ely"]


def test_rows_of_training_have_effects_without_their_own_targets():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 400, 1200)
    frame = pandas.DataFrame({"t": [f"k{code}" for code in codes]})
    targets = rng.normal(size=400)[codes] + rng.normal(size=1200)
    encoder = bb.TableEncoder()
    training = encoder.fit_transform(frame, targets)
    expected = Encoder.learn_and_encode(frame, targets)[1]
    np.testing.assert_array_equal(training, expected)
    assert np.abs(training[:, -1] - encoder.transform(frame)[:, -1]).max() > 0.1
    whole = bb.TableEncoder().fit_transform(frame, np.round(100 * targets).astype(int))
    assert whole.shape == training.shape


def test_it_survives_a_file(houses):
    frame, price = houses
    encoder = bb.TableEncoder(missing=["-1"]).fit(frame, price)
    text = json.dumps(encoder.encoder_.to_json())
    again = bb.TableEncoder.from_encoder(Encoder.from_json(json.loads(text)))
    np.testing.assert_array_equal(again.transform(frame), encoder.transform(frame))
    assert again.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()
    with pytest.raises(ValueError, match="feature names should match"):
        again.transform(frame.rename(columns={"town": "city"}))
    array = np.arange(6.0).reshape(3, 2) ** 2
    encoder = bb.TableEncoder().fit(array)
    again = bb.TableEncoder.from_encoder(encoder.encoder_)
    np.testing.assert_array_equal(again.transform(array), array)


def test_tables_of_other_kinds_are_taken(houses):
    frame, price = houses
    expected = bb.TableEncoder().fit_transform(frame, price)
    table = pyarrow.Table.from_pandas(frame)
    np.testing.assert_array_equal(bb.TableEncoder().fit_transform(table, price), expected)
    numbered = frame.set_axis(range(4), axis=1)
    np.testing.assert_array_equal(bb.TableEncoder().fit_transform(numbered, price), expected)


def test_refusals_name_arguments_of_python(houses):
    frame, price = houses
    with pytest.raises(ValueError, match=r"y must have one target per row of X; got 3 targets for"):
        bb.TableEncoder().fit(frame, price[:3])
    with pytest.raises(ValueError, match=r"text must be a list of texts; got text='town'\."):
        bb.TableEncoder(text="town").fit(frame)
    with pytest.raises(ValueError, match=r"dayfirst must be None or True or False; got 'yes'\."):
        bb.TableEncoder(dayfirst="yes").fit(frame)
    strange = frame.assign(rooms=["1", "2", "x", "3"] * 50)
    with pytest.raises(ValueError, match=r"got 'x' in row 3, .* \(missing=\['x'\] treats it as"):
        bb.TableEncoder().fit(strange)
    encoder = bb.TableEncoder(unknown="error").fit(frame)
    with pytest.raises(ValueError, match=r"\(unknown='other' pools it with the rare ones\)"):
        encoder.transform(frame.assign(town="Bath"))
