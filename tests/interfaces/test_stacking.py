"""Facts about stacked models: every prediction is that of the mixture of their members."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import bbalpha as bb
from bbalpha.interfaces import tuning
from bbalpha.interfaces.stacking import Members, members_of
from bbalpha.predictor import Predictor

SHARES = {0.0: 0.25, 0.5: 0.75, 1.0: 0.0}
NUM_DRAWS = 4000


def scored(estimator, posterior, rows):
    """Scores whose best mixture has these shares: the first quarter of the rows is α = 0's."""
    alpha, is_first = float(posterior.alpha), np.arange(len(rows.inputs)) % 4 == 0
    own = {0.0: is_first, 0.5: ~is_first, 1.0: np.zeros_like(is_first)}[alpha]
    score = np.where(own, 0.0, -50.0)
    return score, score, np.zeros(len(score))


@pytest.fixture(scope="module", params=["gaussian", "heteroscedastic", "softmax"])
def models(request, table):
    """A stacked model, and its members as models of their own."""
    kind, targets = bb.BBAlphaRegressor, table.numbers
    if request.param == "softmax":
        kind, targets = bb.BBAlphaClassifier, table.labels
    settings = {"likelihood": request.param, "max_epochs": 20, "random_state": 0}
    settings["num_predictive_samples"] = NUM_DRAWS
    patch = pytest.MonkeyPatch()
    patch.setattr(tuning, "scores_of_rows", scored)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        stacked = kind((), alpha="stacked", **settings).fit(table.inputs, targets)
        members = [kind((), alpha=a, **settings).fit(table.inputs, targets) for a in (0.0, 0.5)]
    patch.undo()
    return stacked, members, targets


def mixed(densities):
    return np.logaddexp(np.log(0.25) + densities[0], np.log(0.75) + densities[1])


def test_the_members_are_the_fits_and_the_weights_the_shares(models):
    stacked, members, _ = models
    curve = stacked.alpha_curve_
    assert curve.weights == pytest.approx(tuple(SHARES.values()), abs=1e-6)
    assert float(stacked.posterior_.alpha) == pytest.approx(0.375)
    found = members_of(stacked, stacked.posterior_)
    for one, member in zip(found, members, strict=True):
        np.testing.assert_array_equal(one.q.mean, member.posterior_.q.mean)
        np.testing.assert_array_equal(one.prior.variance, member.posterior_.prior.variance)
        assert one.alpha == member.posterior_.alpha
        assert one.hyperparams == member.posterior_.hyperparams or isinstance(
            stacked.posterior_.hyperparams, Members
        )


def test_predictions_are_those_of_the_mixture(models, table):
    stacked, members, targets = models
    score = mixed([member.score_samples(table.inputs, targets) for member in members])
    np.testing.assert_allclose(stacked.score_samples(table.inputs, targets), score, atol=0.15)
    assert abs((stacked.score_samples(table.inputs, targets) - score).mean()) < 0.01
    if hasattr(stacked, "classes_"):
        found = [member.predict_proba(table.new) for member in members]
        np.testing.assert_allclose(
            stacked.predict_proba(table.new), 0.25 * found[0] + 0.75 * found[1], atol=0.03
        )
        return
    (mean, std), moments = stacked.predict(table.new, return_std=True), []
    for member in members:
        moments.append(np.stack(member.predict(table.new, return_std=True)))
    means, deviations = np.moveaxis(np.array(moments), 1, 0)
    expected = [0.25, 0.75] @ means
    np.testing.assert_allclose(mean, expected, atol=4 * std.max() / NUM_DRAWS**0.5)
    second = [0.25, 0.75] @ (deviations**2 + means**2) - expected**2
    np.testing.assert_allclose(std, np.sqrt(second), rtol=0.05)
    parts = stacked.decompose(table.new)
    np.testing.assert_allclose(parts.total, std**2, rtol=1e-3)
    low, high = stacked.predict_interval(table.new).T
    assert ((low < mean) & (mean < high)).all()
    assert stacked.sample_y(table.new, 7).shape == (5, 7)


def test_leaving_out_a_row_mixes_the_scores_of_the_members(models, table):
    stacked, members, targets = models
    found = bb.leave_one_out(stacked, table.inputs, targets)
    each = [bb.leave_one_out(member, table.inputs, targets) for member in members]
    np.testing.assert_allclose(found.scores, mixed([one.scores for one in each]), atol=1e-4)
    np.testing.assert_allclose(found.training, mixed([one.training for one in each]), atol=1e-4)
    verdict = bb.judge(stacked, table.inputs, targets)
    assert verdict.held_out == pytest.approx(found.mean, abs=0.05)


def test_a_stacked_model_comes_back_from_a_file(models, table, tmp_path):
    stacked, _, _ = models
    stacked.save(tmp_path / "model.safetensors")
    loaded = type(stacked).load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict(table.new), stacked.predict(table.new))
    assert loaded.alpha_curve_ == stacked.alpha_curve_
    changed = stacked.posterior_.q.log_weights + jnp.array([0.5, 0.0])
    forged = type(stacked).load(tmp_path / "model.safetensors")
    q = bb.GaussianMixture(forged.posterior_.q.means, forged.posterior_.q.log_variances, changed)
    object.__setattr__(forged.posterior_, "q", q)
    forged.save(tmp_path / "forged.safetensors")
    with pytest.raises(ValueError, match="does not have the weights of the stacked posterior"):
        type(stacked).load(tmp_path / "forged.safetensors")


def test_an_exported_mixture_predicts_the_same(models, table, tmp_path):
    stacked, _, _ = models
    if isinstance(stacked.posterior_.hyperparams, Members):
        with pytest.raises(ValueError, match="stacked posteriors that differ in their noise"):
            stacked.export(tmp_path / "model.predictor")
        return
    stacked.export(tmp_path / "model.predictor")
    found = Predictor.load(tmp_path / "model.predictor")
    if hasattr(stacked, "classes_"):
        expected = stacked.predict_proba(table.new)
        np.testing.assert_allclose(found.predict_proba(table.new), expected, rtol=1e-4)
    else:
        np.testing.assert_allclose(found.predict(table.new), stacked.predict(table.new), rtol=1e-5)


def test_a_warm_start_goes_on_from_the_strongest_member(models, table):
    stacked, members, targets = models
    other = type(stacked)(**stacked.get_params()).set_params(alpha=0.5, warm_start=True)
    vars(other).update({k: v for k, v in vars(stacked).items() if k.endswith("_") or k[0] == "_"})
    other.set_params(max_epochs=1)
    again = type(stacked)(**members[1].get_params())
    vars(again).update(vars(members[1]))
    again.set_params(max_epochs=1, warm_start=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        other.fit(table.inputs, targets)
        again.fit(table.inputs, targets)
    np.testing.assert_allclose(
        other.predict_proba(table.new) if hasattr(other, "classes_") else other.predict(table.new),
        again.predict_proba(table.new) if hasattr(again, "classes_") else again.predict(table.new),
        rtol=1e-5,
    )
