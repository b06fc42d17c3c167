"""The network of a predictor: the user's inputs → outputs for every stored draw of the weights."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "softplus": lambda x: np.logaddexp(x, 0),
}


@dataclass(frozen=True)
class InputScales:
    """The map from a user's inputs to the inputs of the network, as learned by `InputUnits`.

    Attributes:
        mean: The mean of each column.
        scale: The size of one network unit in each column.
        lower: The lower limit of each column.
        upper: The upper limit of each column.
        axes: The principal axes as columns, or no columns.
    """

    mean: np.ndarray
    scale: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    axes: np.ndarray

    def transform(self, inputs: np.ndarray) -> np.ndarray:
        """Return the inputs of the network."""
        limited = np.clip(inputs, self.lower, self.upper)
        standardized = (limited - self.mean) / self.scale
        overflows = ~np.isfinite(standardized)
        if overflows.any():
            apart = limited / self.scale - self.mean / self.scale
            standardized = np.where(overflows, apart, standardized)
        if self.axes.size == 0:
            return standardized
        return np.hstack([standardized, standardized @ self.axes])

    def is_outside(self, inputs: np.ndarray) -> np.ndarray:
        """Return whether each value lies beyond its limit."""
        return (inputs < self.lower) | (inputs > self.upper)


@dataclass(frozen=True)
class Network:
    """Draws of the weights, along the first axis of every array.

    Attributes:
        hidden: Weights and biases of each hidden layer.
        heads: Weights, biases and, for a head that also sees the inputs, the weights of these.
        activation: The name of the activation.
    """

    hidden: Sequence[dict[str, np.ndarray]]
    heads: Sequence[dict[str, np.ndarray]]
    activation: str

    @classmethod
    def of(cls, draws: np.ndarray, leaves: Any, activation: str) -> "Network":
        """Return the network whose flat draws consist of these leaves, in this order.

        Args:
            draws: The draws, of shape (draws, weights).
            leaves: For each leaf, the group ("hidden" or "heads"), the number of the layer in it,
                the part and the shape.
            activation: The name of the activation.

        Raises:
            ValueError: If they do not form a network.
        """
        found: dict[str, dict[int, dict[str, np.ndarray]]] = {"hidden": {}, "heads": {}}
        start = 0
        for group, number, part, shape in leaves:
            size = int(np.prod(shape, dtype=np.int64))
            piece = draws[:, start : start + size].reshape(len(draws), *shape)
            found[group].setdefault(number, {})[part] = piece
            start += size
        if start != draws.shape[1] or activation not in ACTIVATIONS:
            raise ValueError("the draws and the layers differ in size.")
        hidden, heads = ([found[group][i] for i in range(len(found[group]))] for group in found)
        return cls(hidden, heads, activation)

    @property
    def num_draws(self) -> int:
        """The number of draws."""
        return len(self.heads[0]["biases"])

    @property
    def num_outputs(self) -> int:
        """Outputs of all heads."""
        return sum(head["biases"].shape[1] for head in self.heads)

    def check(self, num_inputs: int, num_axes: int) -> None:
        """Raise unless the layers fit each other and the inputs."""
        if not self.heads:
            raise ValueError("the network has no outputs.")
        last = num_inputs if self.hidden else num_axes or num_inputs
        widths = [last, *(layer["biases"].shape[1] for layer in self.hidden)]
        shapes = [layer["weights"].shape[1:] for layer in self.hidden]
        fits = shapes == [(units, inputs) for inputs, units in pairwise(widths)]
        for head in self.heads:
            num = head["biases"].shape[1]
            fits &= head["weights"].shape[1:] == (num, widths[-1])
            fits &= "skip" not in head or head["skip"].shape[1:] == (num, num_axes or num_inputs)
        if not fits:
            raise ValueError("the layers of the network do not fit each other.")

    def widest(self) -> int:
        """The number of units in the widest layer."""
        return max([self.num_outputs, *(layer["biases"].shape[1] for layer in self.hidden)])

    def take(self, draws: np.ndarray) -> "Network":
        """Return the network with some of the draws."""
        hidden, heads = (
            [{name: array[draws] for name, array in layer.items()} for layer in group]
            for group in (self.hidden, self.heads)
        )
        return Network(hidden, heads, self.activation)

    def outputs(self, inputs: np.ndarray) -> np.ndarray:
        """Return the outputs in float64, of shape (draws, rows, outputs).

        The hidden layers take the first columns of the inputs, the linear paths the last ones.
        """
        activation = ACTIVATIONS[self.activation]
        columns = inputs.T.astype(self.heads[0]["biases"].dtype)
        if self.hidden:
            units = columns[: self.hidden[0]["weights"].shape[2]]
        else:
            units = columns[-self.heads[0]["weights"].shape[2] :]
        for layer in self.hidden:
            units = activation(layer["weights"] @ units + layer["biases"][:, :, None])
        outputs = []
        for head in self.heads:
            output = head["weights"] @ units + head["biases"][:, :, None]
            if "skip" in head:
                output = output + head["skip"] @ columns[-head["skip"].shape[2] :]
            outputs.append(output)
        return np.concatenate(outputs, axis=1).astype(np.float64).transpose(0, 2, 1)
