"""`Layout`: how a tree of parameters lies in one flat vector, on which q and optimizers work.

A parameter with a constraint, such as a scale, has a transform: the vector holds free numbers, and
the tree holds the constrained values that they map to.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PyTree

from bbalpha.engine.arrays import library_of, on_device, on_host

Shape = tuple[int, ...]

ROUND_TRIP = 1e-4  # how far a start may change when it is mapped to free numbers and back


@runtime_checkable
class Transform(Protocol):
    """A smooth one-to-one map from free numbers to values under a constraint.

    To write your own, make a frozen dataclass with these members; it must be hashable, because
    compiled programs are cached by it. Three more members are optional:

    - `free_shape(shape)`: the shape of the free numbers of an array, if it differs.
    - `elementwise = True`: says that each value depends on only one free number, which makes means
      and quantiles exact.
    - `rule`: the constraint in words, for messages such as "params['scale'] must be positive".
    """

    def forward(self, free: Float[Array, "..."]) -> Float[Array, "..."]:
        """The values that the free numbers map to."""
        ...

    def inverse(self, values: Float[Array, "..."]) -> Float[Array, "..."]:
        """The free numbers of the values; NaN or infinite if the values break the constraint."""
        ...

    def log_det_jacobian(self, free: Float[Array, "..."]) -> Float[Array, "..."]:
        """Log |det ∂values/∂free| of the array, or terms that sum to it."""
        ...


@dataclass(frozen=True)
class Layout:
    """The structure and shapes of a tree; hashable, so that compiled programs are cached by it.

    >>> layout = bb.Layout.of({"weights": jnp.zeros((2, 3)), "bias": jnp.zeros(())})
    >>> layout.size, layout.paths
    (7, ("['bias']", "['weights']"))
    """

    structure: Any
    paths: tuple[str, ...]
    shapes: tuple[Shape, ...]
    dtypes: tuple[str, ...]
    transforms: tuple[Any, ...]  # a Transform or None for each leaf

    @classmethod
    def of(cls, params: PyTree, name: str = "params", transforms: PyTree = None) -> "Layout":
        """The layout of a tree of parameters.

        Args:
            params: a tree of arrays, or of their shapes.
            name: the name of the tree in error messages.
            transforms: as for `fit`.

        Raises:
            TypeError: if a leaf is not an array of floating-point numbers, or if a transform is of
                the wrong kind.
            ValueError: if the tree holds no numbers, or a transform does not fit its parameter.
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
        layout = cls(structure, paths, shapes, dtypes, (None,) * len(paths))
        if transforms is None:
            return layout
        return layout.constrained(_one_per_leaf(transforms, [path for path, _ in leaves]))

    def constrained(self, transforms: tuple[Any, ...]) -> "Layout":
        """The same layout with these transforms, one transform or None per leaf.

        Raises:
            ValueError: if a transform does not fit the shape of its leaf.
        """
        layout = dataclasses.replace(self, transforms=transforms)
        for path, shape, transform in zip(self.paths, self.shapes, transforms, strict=True):
            if transform is not None:
                _check_shapes(transform, path, shape)
        return layout

    @property
    def is_constrained(self) -> bool:
        """Whether any leaf has a transform."""
        return any(transform is not None for transform in self.transforms)

    @property
    def size(self) -> int:
        """The length of the vector."""
        return sum(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of entries of the vector that belong to each leaf."""
        return tuple(math.prod(shape) for shape in self.free_shapes)

    @property
    def free_shapes(self) -> tuple[Shape, ...]:
        """The shape of each leaf's free numbers, which may differ from its own."""
        return tuple(map(_free_shape, self.transforms, self.shapes))

    def flatten(self, params: PyTree) -> Float[Array, " params"]:
        """The vector of a tree with this layout: the free numbers of all parameters.

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
        # At least single precision and not weakly typed, because programs are cached by that too.
        dtype = jnp.promote_types(jnp.result_type(*self.dtypes), jnp.float32)
        if not self.is_constrained:
            leaves = jax.tree.map(on_host, leaves)
            numpy = library_of(leaves)
            return on_device(numpy.concatenate([numpy.ravel(leaf) for leaf in leaves], dtype=dtype))
        free = [
            leaf if transform is None else transform.inverse(jnp.asarray(leaf, dtype))
            for leaf, transform in zip(leaves, self.transforms, strict=True)
        ]
        return jnp.concatenate([jnp.ravel(leaf) for leaf in free], dtype=dtype)

    def pieces(self, vector: Float[Array, " params"]) -> list[Float[Array, "..."]]:
        """The free numbers of each leaf, cut out of a vector."""
        ends = np.cumsum(self.sizes)[:-1].tolist()
        numbers = on_host(vector)
        pieces = library_of(numbers).split(numbers, ends)
        return [
            on_device(piece.reshape(shape))
            for piece, shape in zip(pieces, self.free_shapes, strict=True)
        ]

    def unflatten(self, vector: Float[Array, " params"]) -> PyTree:
        """The tree of a vector, each leaf in its own shape, type and range."""
        values = [
            piece if transform is None else transform.forward(piece)
            for piece, transform in zip(self.pieces(vector), self.transforms, strict=True)
        ]
        return self.tree(values)

    def tree(self, leaves: list[Float[Array, "..."]]) -> PyTree:
        """The tree with these leaves, each in its own type."""
        typed = [on_device(leaf, dtype) for leaf, dtype in zip(leaves, self.dtypes, strict=True)]
        return self.structure.unflatten(typed)

    def log_det_jacobians(self, vector: Float[Array, " params"]) -> list[Float[Array, ""]]:
        """Log |det ∂leaf/∂free| of each leaf, the difference between the two log-densities."""
        return [
            jnp.zeros((), vector.dtype)
            if transform is None
            else jnp.sum(transform.log_det_jacobian(piece))
            for piece, transform in zip(self.pieces(vector), self.transforms, strict=True)
        ]

    def check_support(self, params: PyTree) -> None:
        """Raise if a parameter breaks its constraint; traced ones cannot be checked.

        Raises:
            ValueError: if it changes when mapped to free numbers and back; shows its value.
        """
        leaves = self.structure.flatten_up_to(params)
        for leaf, path, transform in zip(leaves, self.paths, self.transforms, strict=True):
            if transform is None or isinstance(leaf, Tracer):
                continue
            free = transform.inverse(jnp.asarray(leaf))
            error = np.abs(transform.forward(free) - leaf)
            is_close = np.all(error <= ROUND_TRIP * max(1.0, np.max(np.abs(leaf), initial=0.0)))
            if not (np.all(np.isfinite(free)) and is_close):
                rule = getattr(transform, "rule", f"in the range of {transform}")
                raise ValueError(f"params{path} must be {rule}; got params{path}={shown(leaf)}.")

    def spread(self, values: Sequence[Float[Array, "..."]]) -> Float[Array, " params"]:
        """A vector of the values of each leaf, broadcast to its shape."""
        pairs = zip(values, self.free_shapes, strict=True)
        return jnp.concatenate([_broadcast(value, shape).ravel() for value, shape in pairs])


def _broadcast(value: Array, shape: tuple[int, ...]) -> Array:
    """The value in this shape; jax may be set not to promote ranks."""
    return jnp.broadcast_to(value.reshape((1,) * (len(shape) - value.ndim) + value.shape), shape)


def shown(leaf: Any) -> str:
    """The values of an array on one line, shortened, for use in a sentence."""
    values = np.asarray(leaf, float)
    text = np.array2string(
        values, threshold=6, separator=", ", formatter={"float_kind": "{:g}".format}
    )
    return " ".join(text.split())


def name_of(path: str, index: tuple[int, ...]) -> str:
    """The name of a number, such as weights[0, 1]: its path and its index in the array."""
    place = f"[{', '.join(map(str, index))}]" if index else ""
    if path.startswith("['"):
        key, _, rest = path[2:].partition("']")
        return key + rest + place
    return (path.removeprefix(".") if path.startswith(".") else f"params{path}") + place


def _free_shape(transform: Any, shape: Shape) -> Shape:
    return transform.free_shape(shape) if hasattr(transform, "free_shape") else shape


def _one_per_leaf(transforms: PyTree, leaf_paths: list[Any]) -> tuple[Any, ...]:
    """The transform or None of each leaf, matched by name, whatever containers are used."""
    given = jax.tree_util.tree_leaves_with_path(transforms, lambda x: isinstance(x, Transform))
    by_names = {}
    places = {_names(path): place for place, path in enumerate(leaf_paths)}
    for path, transform in given:
        written = f"transforms{jax.tree_util.keystr(path)}"
        if not (isinstance(transform, Transform) and not isinstance(transform, type)):
            raise TypeError(
                f"{written} must be a transform, such as bb.positive; got {transform!r}."
            )
        if not _is_hashable(transform):
            raise TypeError(
                f"{written} must be hashable, for example a frozen dataclass; got {transform!r}."
            )
        if _names(path) not in places:
            known = ", ".join(f"params{jax.tree_util.keystr(path)}" for path in leaf_paths[:5])
            more = ", …" if len(leaf_paths) > 5 else ""
            raise ValueError(
                f"{written} must belong to an array of params, which has {known}{more}; "
                f"got {transform}."
            )
        by_names[places[_names(path)]] = transform
    return tuple(by_names.get(place) for place in range(len(leaf_paths)))


def _is_hashable(thing: Any) -> bool:
    """Whether it has a hash; a frozen dataclass that holds a list, for example, has none."""
    try:
        hash(thing)
    except TypeError:
        return False
    return True


def _names(path: Any) -> tuple[str, ...]:
    """The keys of a path as texts, so that {"scale": …} also matches the field of a module."""
    return tuple(jax.tree_util.keystr((key,), simple=True) for key in path)


def _check_shapes(transform: Any, path: str, shape: Shape) -> None:
    """Raise unless the transform maps free numbers to an array of this shape, and back."""
    try:
        free_shape = _free_shape(transform, shape)
    except ValueError as error:
        raise ValueError(f"params{path} must have {error}; got shape {shape}.") from None
    free = jax.ShapeDtypeStruct(free_shape, jnp.float32)
    values = jax.ShapeDtypeStruct(shape, jnp.float32)
    for name, start, expected in (("forward", free, shape), ("inverse", values, free_shape)):
        found = jax.eval_shape(getattr(transform, name), start).shape
        if found != expected:
            raise ValueError(
                f"transforms{path}.{name} must return shape {expected} for params{path}; "
                f"got shape {found}."
            )
