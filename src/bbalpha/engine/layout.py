"""How a tree of parameters lies in one flat vector, the form that q and optimizers work on."""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from bbalpha.engine.arrays import library_of, on_device, on_host


@dataclass(frozen=True)
class Layout:
    """The structure and shapes of a tree; hashable, so that compiled programs are cached by it.

    >>> layout = bb.Layout.of({"weights": jnp.zeros((2, 3)), "bias": jnp.zeros(())})
    >>> layout.size, layout.paths
    (7, ("['bias']", "['weights']"))
    """

    structure: Any
    paths: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]

    @classmethod
    def of(cls, params: PyTree, name: str = "params") -> "Layout":
        """The layout of `params`, which error messages call `name`.

        Raises:
            TypeError: if a leaf is not an array of floating-point numbers.
            ValueError: if the tree holds no numbers.
        """
        leaves, structure = jax.tree_util.tree_flatten_with_path(params)
        paths = tuple(jax.tree_util.keystr(path) for path, _ in leaves)
        arrays = [leaf for _, leaf in leaves]
        for path, leaf in zip(paths, arrays, strict=True):
            dtype = getattr(leaf, "dtype", type(leaf).__name__)
            if not jnp.issubdtype(getattr(leaf, "dtype", np.object_), jnp.floating):
                remedy = " Split a module by eqx.partition(module, eqx.is_inexact_array)."
                raise TypeError(
                    f"{name} must hold arrays of floating-point numbers; got {name}{path} of type "
                    f"{dtype}.{remedy if callable(leaf) else ''}"
                )
        if sum(leaf.size for leaf in arrays) == 0:
            raise ValueError(f"{name} must hold at least one number; got none in {params!r}.")
        shapes = tuple(tuple(leaf.shape) for leaf in arrays)
        dtypes = tuple(str(jax.dtypes.canonicalize_dtype(leaf.dtype)) for leaf in arrays)
        return cls(structure, paths, shapes, dtypes)

    @property
    def size(self) -> int:
        """The length of the vector."""
        return sum(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many numbers each leaf holds."""
        return tuple(math.prod(shape) for shape in self.shapes)

    def flatten(self, params: PyTree) -> Float[Array, " params"]:
        """The vector of a tree with this layout.

        Raises:
            ValueError: if the structure of the tree or the shape of a leaf differs.
        """
        leaves = self.structure.flatten_up_to(params)
        for leaf, path, shape in zip(leaves, self.paths, self.shapes, strict=True):
            if np.shape(leaf) != shape:
                raise ValueError(
                    f"params{path} must have shape {shape}, as in the model; "
                    f"got shape {np.shape(leaf)}."
                )
        # At least single precision, and not weak: compiled programs are cached by that too.
        dtype = jnp.promote_types(jnp.result_type(*self.dtypes), jnp.float32)
        leaves = jax.tree.map(on_host, leaves)
        numpy = library_of(leaves)
        return on_device(numpy.concatenate([numpy.ravel(leaf) for leaf in leaves], dtype=dtype))

    def unflatten(self, vector: Float[Array, " params"]) -> PyTree:
        """The tree of a vector, each leaf in its own shape and type."""
        ends = np.cumsum(self.sizes)[:-1].tolist()
        numbers = on_host(vector)
        pieces = library_of(numbers).split(numbers, ends)
        leaves = [
            on_device(piece.reshape(shape), dtype)
            for piece, shape, dtype in zip(pieces, self.shapes, self.dtypes, strict=True)
        ]
        return self.structure.unflatten(leaves)

    def per_leaf(self, values: Float[Array, " leaves"]) -> Float[Array, " params"]:
        """A vector that repeats the value of each leaf for all of its parameters."""
        return jnp.repeat(values, np.array(self.sizes), total_repeat_length=self.size)
