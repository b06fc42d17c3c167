"""A tree and its flat vector are the same thing twice."""

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


def test_a_value_per_leaf_is_repeated_over_the_numbers_of_the_leaf():
    layout = bb.Layout.of(MODEL)
    repeated = layout.per_leaf(jnp.array([10.0, 20.0]))
    np.testing.assert_array_equal(repeated, [10.0] + [20.0] * 6)


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
