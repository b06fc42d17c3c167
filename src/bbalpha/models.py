"""Models: parameters and inputs → outputs.

A model is a plain function of a pytree of parameters and a matrix of inputs with one row per datum.
The two models in this file are not special: any such function (Flax, Equinox, your own) will do.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, Num

Layer = dict[str, Array | np.ndarray]
"""One affine layer: "weights" (num_outputs, num_inputs) and "biases" (num_outputs,).

There is one row of weights per output, as in torch and Equinox. For many draws of the weights, the
first layer is then a single product of all their rows, in memory order, with the inputs.
"""


def linear(params: Layer, inputs: Num[Array | np.ndarray, "..."]) -> Float[Array, "data outputs"]:
    """Outputs of an affine map, X Wᵀ + b, one row per datum.

    Args:
        params: "weights" of shape (num_outputs, num_inputs) and "biases" of shape (num_outputs,).
        inputs: One row per datum, of shape (data, num_inputs).

    Raises:
        ValueError: If the inputs do not have that shape.

    >>> params = {"weights": jnp.array([[1.0, 2.0]]), "biases": jnp.array([3.0])}
    >>> print(bb.linear(params, jnp.array([[1.0, 1.0], [0.0, -1.0]])))
    [[6.]
     [1.]]
    """
    return mlp([params], inputs)


def mlp(
    params: Sequence[Layer],
    inputs: Num[Array | np.ndarray, "..."],
    activation: Callable[[Array], Array] = jax.nn.relu,
) -> Float[Array, "data outputs"]:
    """Outputs of a multilayer perceptron: affine layers with an activation between them.

    Args:
        params: The layers in order, each as for `linear`; `init_mlp` creates them.
        inputs: One row per datum, of shape (data, num_inputs).
        activation: Applied elementwise after every layer but the last.

    Raises:
        ValueError: If the inputs do not have that shape.

    >>> params = bb.init_mlp([13, 100, 1], key=jax.random.key(0))
    >>> bb.mlp(params, jnp.ones((5, 13))).shape
    (5, 1)
    """
    *hidden_layers, last_layer = params
    num_inputs = params[0]["weights"].shape[1]
    if inputs.ndim != 2 or inputs.shape[1] != num_inputs:
        raise ValueError(
            f"inputs must have shape (data, {num_inputs}) to match the weights; got {inputs.shape}."
        )
    units = inputs.T  # one row per unit, so that nothing is transposed between layers
    for layer in hidden_layers:
        units = activation(_affine(layer, units))
    return _affine(last_layer, units).T


def init_linear(
    num_inputs: int, num_outputs: int = 1, *, key: Key[Array, ""], scheme: str = "normal"
) -> Layer:
    """Initial parameters of `linear`, drawn like a layer of `init_mlp`.

    Args:
        num_inputs: Number of columns of the inputs.
        num_outputs: Number of columns of the outputs.
        key: Random key.
        scheme: "normal" or "glorot"; see `init_mlp`.

    Raises:
        ValueError: If a number of columns is less than 1 or the scheme is unknown.

    >>> params = bb.init_linear(34, key=jax.random.key(0))
    >>> params["weights"].shape, params["biases"].shape
    ((1, 34), (1,))
    """
    if min(num_inputs, num_outputs) < 1:
        raise ValueError(
            "num_inputs and num_outputs must be at least 1; "
            f"got num_inputs={num_inputs}, num_outputs={num_outputs}."
        )
    if scheme not in _SCHEMES:
        raise ValueError(f"scheme must be one of {', '.join(_SCHEMES)}; got scheme={scheme!r}.")
    weights_key, biases_key = jax.random.split(key)
    weights_scale, biases_scale = _SCHEMES[scheme](num_inputs, num_outputs)
    return {
        "weights": weights_scale * jax.random.normal(weights_key, (num_outputs, num_inputs)),
        "biases": biases_scale * jax.random.normal(biases_key, (num_outputs,)),
    }


def init_mlp(sizes: Sequence[int], *, key: Key[Array, ""], scheme: str = "normal") -> list[Layer]:
    """Initial parameters of `mlp`, drawn by one of the paper's two schemes; q starts around them.

        normal  (Section 4)    weights, biases ~ N(0, 0.1²)
        glorot  (Section 4.3)  weights ~ N(0, 2/(d_in + d_out)),  biases ~ N(0, 2/(1 + d_out))

    The paper gives no variance for the biases of the second scheme; this one is from the authors'
    code.

    Args:
        sizes: Numbers of inputs, of units in each hidden layer, and of outputs.
        key: Random key.
        scheme: "normal" or "glorot".

    Raises:
        ValueError: If there are fewer than two sizes, one is less than 1, or the scheme is unknown.

    >>> params = bb.init_mlp([784, 400, 400, 10], key=jax.random.key(0), scheme="glorot")
    >>> [layer["weights"].shape for layer in params]
    [(400, 784), (400, 400), (10, 400)]
    """
    if len(sizes) < 2 or min(sizes) < 1:
        raise ValueError(
            "sizes must list the numbers of inputs, hidden units and outputs, each at least 1; "
            f"got sizes={list(sizes)}."
        )
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        init_linear(num_inputs, num_outputs, key=layer_key, scheme=scheme)
        for layer_key, (num_inputs, num_outputs) in zip(keys, pairwise(sizes), strict=True)
    ]


def _affine(layer: Layer, units: Num[Array | np.ndarray, "units data"]) -> Float[Array, "..."]:
    return jnp.matmul(layer["weights"], units) + layer["biases"][:, None]


def _normal_scales(num_inputs: int, num_outputs: int) -> tuple[float, float]:
    """Standard deviations of weights and biases, regardless of size."""
    return 0.1, 0.1  # Section 4


def _glorot_scales(num_inputs: int, num_outputs: int) -> tuple[float, float]:
    """Standard deviations of weights and biases by Glorot's rule; a bias counts as one input."""
    return math.sqrt(2 / (num_inputs + num_outputs)), math.sqrt(2 / (1 + num_outputs))


_SCHEMES = {"normal": _normal_scales, "glorot": _glorot_scales}
