"""LSTM and GRU layers as whole cuDNN calls, and a loop for cells without a cuDNN kernel.

Keras uses cuDNN for the standard activations with a bias, without recurrent dropout or unrolling, and never for SimpleRNN and
other cells. A bidirectional layer is one call on the PyTorch and JAX backends of recent Keras, otherwise two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from gpuwise.workload.capture.keras.leaf import Leaf, type_name

__all__ = ["LEAVES", "REWRITES", "Loop"]

_GATES = {"LSTM": 4, "GRU": 3}


def _is_cudnn(layer: Any) -> bool:
    """Whether Keras would call cuDNN for this LSTM or GRU layer on a GPU."""
    if type_name(layer) not in _GATES or getattr(layer, "use_cudnn", "auto") is False:
        return False
    cell = layer.cell
    names = [getattr(function, "__name__", "") for function in (cell.activation, cell.recurrent_activation)]
    usual = names == ["tanh", "sigmoid"] and cell.use_bias and getattr(cell, "reset_after", True)
    return bool(usual and not cell.recurrent_dropout and not layer.unroll)


class _Weights(nn.Module):
    """The weights of one direction. Keras' LSTM has one bias, while cuDNN takes two: the second is a constant zero."""

    def __init__(self, leaf: Leaf, layer: Any) -> None:
        super().__init__()
        rows, width = _GATES[type_name(layer)] * layer.units, layer.cell.kernel.shape[0]
        self.inputs, self.hidden, self.bias = leaf.new(rows, width), leaf.new(rows, layer.units), leaf.new(rows)
        if type_name(layer) == "GRU":
            self.second = leaf.new(rows)
        else:
            self.register_buffer("second", torch.empty(rows), persistent=False)

    def all(self) -> list[torch.Tensor]:
        return [self.inputs, self.hidden, self.bias, self.second]


class _Recurrent(Leaf):
    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.sequences, self.states, self.backwards = layer.return_sequences, layer.return_state, layer.go_backwards
        self.units, self.dropout, self.cell = layer.units, float(layer.cell.dropout), type_name(layer)
        self.weights = nn.ModuleList([_Weights(self, layer)])

    @classmethod
    def fits(cls, layer: Any) -> bool:
        return _is_cudnn(layer)

    def forward(self, sequences: torch.Tensor, initial_state: Any = None, *, training: bool) -> Any:
        x = sequences.flip(1) if self.backwards else sequences
        x = F.dropout(x, self.dropout, training) if self.dropout else x
        out, *states = self.run(x, initial_state, training)
        result = out if self.sequences else out[:, -1]
        return (result, *(state[0] for state in states)) if self.states else result

    def run(self, x: torch.Tensor, initial: Any, training: bool) -> Any:
        """One cuDNN call over all directions: outputs of every step, then the last states."""
        directions = len(self.weights)
        given = list(initial) if isinstance(initial, (list, tuple)) else [] if initial is None else [initial]
        kinds = 2 if self.cell == "LSTM" else 1
        states = [
            torch.stack(given[kind::kinds]) if given else x.new_zeros(directions, x.shape[0], self.units) for kind in range(kinds)
        ]
        flat = [weight for part in self.weights for weight in part.all()]
        rest = (True, 1, 0.0, training, directions == 2, True)
        if self.cell == "LSTM":
            return torch.lstm(x, states, flat, *rest)
        return torch.gru(x, states[0], flat, *rest)


class _Bidirectional(_Recurrent):
    """Both directions in one call."""

    def __init__(self, layer: Any) -> None:
        super().__init__(layer.forward_layer)
        self.backwards, self.merge = False, layer.merge_mode
        self.weights = nn.ModuleList([_Weights(self, layer.forward_layer), _Weights(self, layer.backward_layer)])

    @classmethod
    def fits(cls, layer: Any) -> bool:
        both = (layer.forward_layer, layer.backward_layer)
        kinds = {(type(part), part.units) for part in both if _is_cudnn(part) and not part.cell.dropout and not part.stateful}
        return len(kinds) == 1 and all(_is_cudnn(part) for part in both) and _fuses_directions(layer, both[0])

    def forward(self, sequences: torch.Tensor, initial_state: Any = None, *, training: bool) -> Any:
        out, *states = self.run(sequences, initial_state, training)
        ahead, back = out[..., : self.units], out[..., self.units :]
        if not self.sequences:
            ahead, back = ahead[:, -1], back[:, 0]
        if self.merge == "concat":
            result: Any = out if self.sequences else torch.cat([ahead, back], -1)
        else:
            result = (
                {"sum": ahead + back, "ave": (ahead + back) / 2, "mul": ahead * back}[self.merge] if self.merge else (ahead, back)
            )
        if not self.states:
            return result
        return (*(result if isinstance(result, tuple) else (result,)), *(state[way] for way in (0, 1) for state in states))


def _fuses_directions(layer: Any, part: Any) -> bool:
    """Return whether this version of Keras calls cuDNN once for both directions, on the backend that reads the graph."""
    import keras

    return hasattr(layer, f"_can_attempt_fused_{type_name(part).lower()}") and keras.config.backend() != "tensorflow"


class Loop(nn.Module):
    """An RNN run step by step: its cell, already opened, once for each time step."""

    def __init__(self, layer: Any, cell: nn.Module) -> None:
        super().__init__()
        self.sequences, self.states, self.backwards = layer.return_sequences, layer.return_state, layer.go_backwards
        self.dropout = float(getattr(layer.cell, "dropout", 0) or 0)
        self.cell = cell

    def forward(self, program: Any, sequences: torch.Tensor, *states: torch.Tensor, training: bool) -> Any:
        x = sequences.flip(1) if self.backwards else sequences
        x = F.dropout(x, self.dropout, training) if self.dropout else x
        kept = list(states) or [x.new_zeros(spec.shape) for spec in program.specs[1:]]
        outputs = []
        for step in range(x.shape[1]):
            out, *kept = self.cell(program, x[:, step], *kept)
            outputs.append(out)
        result = torch.stack(outputs, 1) if self.sequences else outputs[-1]
        return (result, *kept) if self.states else result


def _both_ways(keras: Any, layer: Any, sequences: Any, initial_state: Any = None, mask: Any = None, training: Any = None) -> Any:
    """A bidirectional layer as two layers, a flip and a merge."""
    half = len(initial_state) // 2 if initial_state is not None else 0
    starts = (initial_state[:half], initial_state[half:]) if half else (None, None)
    ahead, back = (
        part(sequences, initial_state=start)
        for part, start in zip((layer.forward_layer, layer.backward_layer), starts, strict=True)
    )
    states: tuple[Any, ...] = ()
    if layer.return_state:
        states, ahead, back = (*ahead[1:], *back[1:]), ahead[0], back[0]
    back = keras.ops.flip(back, axis=1) if layer.return_sequences else back
    result: Any = (ahead, back)
    if layer.merge_mode is not None:
        result = {
            "concat": lambda: keras.ops.concatenate([ahead, back], axis=-1),
            "sum": lambda: ahead + back,
            "ave": lambda: (ahead + back) / 2,
            "mul": lambda: ahead * back,
        }[layer.merge_mode]()
    return (*(result if isinstance(result, tuple) else (result,)), *states) if states else result


def _each_step(keras: Any, layer: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
    """A layer over every time step at once: time is folded into the batch."""
    batch, steps, *rest = inputs.shape
    folded = layer.layer(keras.ops.reshape(inputs, (batch * steps, *rest)))
    return keras.tree.map_structure(lambda part: keras.ops.reshape(part, (batch, steps, *part.shape[1:])), folded)


def _in_turn(keras: Any, model: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
    """Run a sequential model layer by layer, whatever length it was first built for."""
    for layer in model.layers:
        inputs = layer(inputs)
    return inputs


LEAVES: dict[str, type[Leaf]] = {"LSTM": _Recurrent, "GRU": _Recurrent, "Bidirectional": _Bidirectional}
REWRITES: dict[str, Callable[..., Any]] = {"Bidirectional": _both_ways, "TimeDistributed": _each_step, "Sequential": _in_turn}
