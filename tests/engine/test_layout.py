"""A tree and its flat vector are the same thing twice."""

import dataclasses
import re
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bbalpha as bb

TREES = {
    "a vector": jnp.arange(3.0),
    "a scalar": jnp.array(2.0),
    "a dictionary": {"weights": jnp.arange(6.0).reshape(2, 3), "bias": jnp.array(-1.0)},
    "nested": ({"b": jnp.ones((1, 2, 2)), "a": [jnp.zeros(2)]}, jnp.array([7.0])),
    "numpy": {"weights": np.arange(4, dtype=np.float32), "none": None},
    "an empty leaf": (jnp.zeros((0, 3)), jnp.arange(2.0)),
    "a module": bb.Gaussian(jnp.array([0.5, 0.25])),
    "two precisions": {"coarse": jnp.array([1.5, -2.0], jnp.bfloat16), "fine": jnp.array([0.1])},
}
MODEL = {"weights": jnp.arange(6.0).reshape(2, 3), "bias": jnp.array(-1.0)}


@pytest.mark.parametrize("name", TREES)
def test_flattening_and_unflattening_gives_back_the_tree(name):
    tree = TREES[name]
    layout = bb.Layout.of(tree)
    vector = layout.flatten(tree)
    again = layout.unflatten(vector)
    assert vector.shape == (layout.size,)
    assert jax.tree.structure(again) == jax.tree.structure(tree)
    for leaf, original in zip(jax.tree.leaves(again), jax.tree.leaves(tree), strict=True):
        assert leaf.dtype == original.dtype
        np.testing.assert_array_equal(leaf, original)


@pytest.mark.parametrize("name", TREES)
def test_unflattening_and_flattening_gives_back_the_vector(name):
    layout = bb.Layout.of(TREES[name])
    vector = jnp.arange(float(layout.size))
    np.testing.assert_array_equal(layout.flatten(layout.unflatten(vector)), vector)


def test_every_number_of_the_vector_has_its_place_in_the_tree():
    layout = bb.Layout.of(MODEL)
    tree = layout.unflatten(jnp.arange(7.0))
    assert layout.paths == ("['bias']", "['weights']")
    assert layout.sizes == (1, 6)
    np.testing.assert_array_equal(tree["bias"], 0.0)
    np.testing.assert_array_equal(tree["weights"], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def test_values_of_leaves_are_spread_over_the_numbers_of_the_leaf():
    layout = bb.Layout.of(MODEL)
    spread = layout.spread([jnp.array(10.0), jnp.array([[20.0], [30.0]])])
    np.testing.assert_array_equal(spread, [10.0] + [20.0] * 3 + [30.0] * 3)


def test_layouts_of_trees_of_the_same_shapes_are_equal_and_hash_alike():
    layout, other = bb.Layout.of(MODEL), bb.Layout.of(jax.tree.map(jnp.zeros_like, MODEL))
    assert layout == other
    assert hash(layout) == hash(other)
    assert layout != bb.Layout.of(MODEL | {"bias": jnp.zeros(1)})


def test_the_vector_has_a_type_of_its_own_even_where_leaves_have_weak_ones():
    weak, strong = {"bias": jnp.full(2, 0.5)}, {"bias": jnp.full(2, 0.5, jnp.float32)}
    assert weak["bias"].weak_type
    vectors = [bb.Layout.of(tree).flatten(tree) for tree in (weak, strong)]
    assert jax.typeof(vectors[0]) == jax.typeof(vectors[1])


def test_a_layout_can_be_made_and_used_under_vmap_and_grad():
    draws = jnp.arange(14.0).reshape(2, 7)
    layout = bb.Layout.of(MODEL)
    trees = jax.vmap(layout.unflatten)(draws)
    assert trees["weights"].shape == (2, 2, 3)
    np.testing.assert_array_equal(
        jax.vmap(lambda tree: bb.Layout.of(tree).flatten(tree))(trees), draws
    )
    gradient = jax.grad(lambda vector: jnp.sum(layout.unflatten(vector)["weights"]))(draws[0])
    np.testing.assert_array_equal(gradient, [0.0] + [1.0] * 6)


def test_a_leaf_that_is_not_of_floats_is_named():
    message = r"^hyperparams must hold arrays .* got hyperparams\[1\]\['n'\] of type int32\.$"
    with pytest.raises(TypeError, match=message):
        bb.Layout.of((jnp.zeros(2), {"n": jnp.arange(2)}), "hyperparams")


def test_a_tree_without_arrays_has_no_layout():
    with pytest.raises(ValueError, match=r"^params must hold at least one number; got none in"):
        bb.Layout.of({"none": None})


def test_a_tree_with_a_leaf_of_another_shape_is_not_flattened():
    layout = bb.Layout.of(MODEL)
    message = (
        r"^params\['weights'\] must have shape \(2, 3\), as in the model; got shape \(3, 2\)\.$"
    )
    with pytest.raises(ValueError, match=message):
        layout.flatten(MODEL | {"weights": jnp.zeros((3, 2))})


def test_a_tree_of_another_structure_is_not_flattened():
    with pytest.raises(ValueError, match="bias"):
        bb.Layout.of(MODEL).flatten({"weights": jnp.zeros((2, 3))})


class Mixture(NamedTuple):
    shares: jax.Array
    scales: list
    center: jax.Array


MIXTURE = Mixture(jnp.array([0.2, 0.3, 0.5]), [jnp.array([1.0, 4.0]), None], jnp.array(2.0))
CONSTRAINTS = {
    "a dictionary of some": {"shares": bb.simplex, "scales": {0: bb.positive}},
    "a tree of all": Mixture(bb.simplex, [bb.positive, None], None),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_the_vector_holds_the_free_numbers_of_constrained_leaves(name):
    layout = bb.Layout.of(MIXTURE, transforms=CONSTRAINTS[name])
    assert layout.transforms == (bb.simplex, bb.positive, None)
    assert layout.sizes == (2, 2, 1)
    vector = layout.flatten(MIXTURE)
    np.testing.assert_allclose(vector[:2], bb.simplex.inverse(MIXTURE.shares), rtol=2e-5)
    np.testing.assert_allclose(vector[2:], [0.0, np.log(4.0), 2.0], rtol=2e-5)
    for leaf, original in zip(
        jax.tree.leaves(layout.unflatten(vector)), jax.tree.leaves(MIXTURE), strict=True
    ):
        np.testing.assert_allclose(leaf, original, rtol=2e-5)
    assert layout == bb.Layout.of(MIXTURE, transforms=CONSTRAINTS["a tree of all"])
    assert layout != bb.Layout.of(MIXTURE)


def test_a_single_array_has_a_single_transform():
    layout = bb.Layout.of(jnp.array([1.0, 2.0]), transforms=bb.positive)
    np.testing.assert_allclose(layout.flatten(jnp.array([1.0, 2.0])), np.log([1.0, 2.0]))


def test_the_jacobian_of_the_tree_is_that_of_its_leaves():
    layout = bb.Layout.of(MODEL, transforms={"bias": bb.positive})
    found = layout.log_det_jacobians(jnp.full(7, 3.0))
    np.testing.assert_array_equal(found, [3.0, 0.0])


@dataclasses.dataclass(frozen=True)
class Doubled:
    """A user's own transform, by the three members that it needs."""

    def forward(self, free):
        return 2 * free

    def inverse(self, values):
        return values / 2

    def log_det_jacobian(self, free):
        return jnp.full_like(free, jnp.log(2.0))


@dataclasses.dataclass(frozen=True)
class Clipped(Doubled):
    def forward(self, free):
        return jnp.clip(2 * free, -1.0, 1.0)


@dataclasses.dataclass(frozen=True)
class Longer(Doubled):
    def inverse(self, values):
        return jnp.append(values, 0.0)


@dataclasses.dataclass(frozen=True)
class Changeable(Doubled):
    factors: list


def test_a_transform_of_ones_own_needs_three_members():
    layout = bb.Layout.of(jnp.array([1.0, 2.0]), transforms=Doubled())
    np.testing.assert_array_equal(layout.flatten(jnp.array([1.0, 2.0])), [0.5, 1.0])
    np.testing.assert_array_equal(layout.unflatten(jnp.array([0.5, 1.0])), [1.0, 2.0])
    np.testing.assert_allclose(layout.log_det_jacobians(jnp.zeros(2)), [2 * np.log(2)], rtol=1e-6)


WRONG_TRANSFORMS = {
    "of no parameter": (
        {"wieghts": bb.positive},
        "transforms['wieghts'] must belong to an array of params, which has params['bias'], "
        "params['weights']; got Positive().",
    ),
    "of several": (
        bb.positive,
        "transforms must belong to an array of params, which has params['bias'], "
        "params['weights']; got Positive().",
    ),
    "of a number": (
        {"bias": bb.ordered},
        "params['bias'] must have a last axis of at least 1; got shape ().",
    ),
    "of other shapes": (
        {"weights": Longer()},
        "transforms['weights'].inverse must return shape (2, 3) for params['weights']; "
        "got shape (7,).",
    ),
}
NO_TRANSFORMS = {
    "a text": (
        {"bias": "positive"},
        "transforms['bias'] must be a transform, such as bb.positive; got 'positive'.",
    ),
    "a class": (
        {"bias": Doubled},
        f"transforms['bias'] must be a transform, such as bb.positive; got {Doubled!r}.",
    ),
    "a thing that can change": (
        {"bias": Changeable([2.0])},
        "transforms['bias'] must be hashable, for example a frozen dataclass; "
        "got Changeable(factors=[2.0]).",
    ),
}


@pytest.mark.parametrize("name", WRONG_TRANSFORMS)
def test_a_transform_that_does_not_fit_the_parameters_is_named(name):
    transforms, message = WRONG_TRANSFORMS[name]
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        bb.Layout.of(MODEL, transforms=transforms)


@pytest.mark.parametrize("name", NO_TRANSFORMS)
def test_what_is_not_a_transform_is_named(name):
    transforms, message = NO_TRANSFORMS[name]
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        bb.Layout.of(MODEL, transforms=transforms)


OUTSIDE = {
    "a negative scale": (bb.positive, -1.5, "params must be positive; got params=-1.5."),
    "a scale of zero": (bb.positive, 0.0, "params must be positive; got params=0."),
    "a probability of one": (
        bb.probability,
        1.0,
        "params must be between 0 and 1, exclusive; got params=1.",
    ),
    "a tie": (
        bb.ordered,
        [0.0, 1.0, 1.0],
        "params must be in increasing order along the last axis; got params=[0, 1, 1].",
    ),
    "shares of nine tenths": (
        bb.simplex,
        [0.3, 0.3, 0.3],
        "params must be positive and sum to 1 along the last axis; got params=[0.3, 0.3, 0.3].",
    ),
    "beyond a transform of one's own": (
        Clipped(),
        2.0,
        "params must be in the range of Clipped(); got params=2.",
    ),
    "many numbers": (
        bb.positive,
        [-1.0, *range(2, 100)],
        "params must be positive; got params=[-1, 2, 3, ..., 97, 98, 99].",
    ),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_value_that_breaks_its_constraint_is_shown(name):
    transform, values, message = OUTSIDE[name]
    params = jnp.asarray(values, jnp.float32)
    layout = bb.Layout.of(params, transforms=transform)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        layout.check_support(params)


@pytest.mark.parametrize(
    ("transform", "values"),
    [
        (bb.positive, [1e-30, 1e30]),
        (bb.interval(-1, 1), [1e-9, -1e-9, 0.999]),
        (bb.ordered, [-1e4, 0.0, 1e-3, 1e4]),
        (bb.simplex, [1e-12, 1.0 - 1e-12]),
    ],
)
def test_values_close_to_the_end_of_their_range_are_accepted(transform, values):
    params = jnp.asarray(values, jnp.float32)
    bb.Layout.of(params, transforms=transform).check_support(params)
