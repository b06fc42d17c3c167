"""The network of a predictor: inputs of a user → outputs of every stored draw of the weights."""

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
    """The map from the inputs of a user to those of the network, as `InputUnits` learned it.

    Attributes:
        mean: Of each column.
        scale: What one unit of the network is.
        lower: The smallest value that a column is let through with.
        upper: The largest one.
        axes: Principal axes as columns, or no columns.
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
    """Draws of the weights, one after another on the first axis of every array.

    Attributes:
        hidden: Weights and biases of each hidden layer.
        heads: Weights, biases and, if the head sees the inputs too, the weights of the inputs.
        activation: The name of the activation.
    """

    hidden: Sequence[dict[str, np.ndarray]]
    heads: Sequence[dict[str, np.ndarray]]
    activation: str

    @classmethod
    def of(cls, draws: np.ndarray, leaves: Any, activation: str) -> "Network":
        """Return the network whose flat draws have these leaves, in this order.

        Args:
            draws: Of shape (draws, weights).
            leaves: The layer ("hidden" or "heads"), its number, the part and the shape of each.
            activation: The name of the activation.

        Raises:
            ValueError: If they do not make a network.
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
        """How many draws there are."""
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
        """The most units of a layer."""
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
