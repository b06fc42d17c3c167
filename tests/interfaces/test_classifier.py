"""What the classifier predicts: against its own densities and other links."""

import copy

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

import bbalpha as bb
from bbalpha.interfaces.network import model_of


def classifier(**settings):
    """A linear classifier with a fixed prior, not yet fitted."""
    linear = {"hidden_layer_sizes": (), "prior": "paper", "random_state": 0}
    return bb.BBAlphaClassifier(**linear | settings)


@pytest.fixture(scope="module")
def fitted_probit(table):
    model = classifier(likelihood="probit", alpha=0.0, prior_scale=3.0)
    return model.fit(table.inputs, table.labels)


def test_log_densities_of_labels_are_log_probabilities(table, fitted_classifier):
    probabilities = fitted_classifier.predict_proba(table.inputs)
    chosen = np.where(table.labels == "yes", probabilities[:, 1], probabilities[:, 0])
    np.testing.assert_allclose(
        np.exp(fitted_classifier.score_samples(table.inputs, table.labels)), chosen, rtol=2e-5
    )


def test_aleatoric_and_epistemic_parts_add_up_to_the_entropy_of_a_label(table, fitted_classifier):
    total, aleatoric, epistemic = fitted_classifier.decompose(table.new)
    np.testing.assert_allclose(
        total, stats.entropy(fitted_classifier.predict_proba(table.new), axis=1), rtol=1e-4
    )
    np.testing.assert_allclose(total, aleatoric + epistemic)
    assert (epistemic > 0).all()


def test_probit_and_softmax_agree_on_the_probabilities(table, fitted_probit):
    """Their links differ by little between 0.1 and 0.9 once the scale is learned."""
    other = classifier(alpha=0.0, prior_scale=3.0).fit(table.inputs, table.labels)
    found, expected = (model.predict_proba(table.inputs) for model in (fitted_probit, other))
    np.testing.assert_allclose(found, expected, atol=0.05)


def test_the_probability_of_an_unlikely_label_is_not_lost_by_subtraction(table, fitted_probit):
    far = table.inputs.mean(axis=0, keepdims=True) + np.array([[12.0, 0.0]])
    unlikely = fitted_probit.predict_log_proba(far)[:, 0]
    assert unlikely < -20
    np.testing.assert_allclose(unlikely, fitted_probit.score_samples(far, ["no"]), rtol=1e-4)


def test_labels_that_break_a_rule_are_refused(table):
    with pytest.raises(ValueError, match="at least two classes; got one class, 'no'"):
        classifier().fit(table.inputs, np.full(len(table.inputs), "no"))
    with pytest.raises(ValueError, match="got likelihood='probit' with 3 classes"):
        classifier(likelihood="probit").fit(table.inputs, np.arange(len(table.inputs)) % 3)
    with pytest.raises(ValueError, match="numbers, texts or booleans; got type datetime"):
        classifier().fit(table.inputs, np.tile(np.array(["2020-01-01", "2021-01-01"], "M8[D]"), 32))
    with pytest.raises(ValueError, match="classes must be given in the first call of partial_fit"):
        classifier().partial_fit(table.inputs, table.labels)


def test_labels_that_were_not_in_the_fit_are_refused(table, fitted_classifier):
    with pytest.raises(ValueError, match=r"y must hold the classes \['no', 'yes'\]; got .*maybe"):
        fitted_classifier.score_samples(table.new[:1], ["maybe"])
    with pytest.raises(ValueError, match=r"classes must be the same as in the first call"):
        fitted_classifier.partial_fit(table.inputs, table.labels, classes=["a", "b"])


def test_probabilities_are_those_of_the_mean_over_draws(table, fitted_classifier):
    """The sums over blocks, which float64 adds up, hold all draws, whatever their number."""
    model = fitted_classifier
    inputs = model.input_units_.transform(table.new)
    for num_samples in (33, 1000):
        outputs = model.posterior_.predict(
            model_of("relu"), inputs, key=model._key(), num_samples=num_samples
        )
        expected = softmax(np.asarray(outputs, np.float64), axis=-1).mean(axis=0)
        found = with_draws(model, num_samples).predict_proba(table.new)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_rows_alone_have_the_probabilities_and_densities_that_they_have_together(
    table, fitted_classifier
):
    """To the tolerance of scikit-learn's check_methods_subset_invariance."""
    for method in (fitted_classifier.predict_proba, fitted_classifier.score_samples):
        alone = np.concatenate([method(row[None]) for row in table.inputs])
        np.testing.assert_allclose(method(table.inputs), alone, rtol=1e-7, atol=1e-7)


def with_draws(model, num_samples):
    return copy.copy(model).set_params(num_predictive_samples=num_samples)


def test_probabilities_and_scores_come_from_one_pass_over_the_draws(
    fitted_classifier, table, passes
):
    rows, labels = table.inputs[:5], table.labels[:5]
    probabilities, log_densities = fitted_classifier._described(rows, labels)
    assert passes == [5]
    np.testing.assert_allclose(probabilities, fitted_classifier.predict_proba(rows), rtol=1e-6)
    expected = fitted_classifier.score_samples(rows, labels)
    np.testing.assert_allclose(log_densities, expected, rtol=1e-5)
