"""The data that one dense layer sends: its gradients if the batch is split, its inputs and outputs if the layer is split.

These are back-of-the-envelope counts, without overlap, rings or latency: they show which split moves less, and how plain copying
between many GPUs grows.
"""

from __future__ import annotations

__all__ = ["data_parallel_elements", "equal_batch", "message_count", "model_parallel_elements"]


def data_parallel_elements(inputs: int, outputs: int) -> int:
    """Return the elements a GPU sends per step if every GPU holds the whole layer: its gradient, regardless of the batch.

    >>> data_parallel_elements(1000, 500)
    500000
    """
    return inputs * outputs


def model_parallel_elements(inputs: int, outputs: int, batch: int, *, gpus: int = 2, gathers_outputs: bool = True) -> float:
    """Return the elements a GPU sends to another per step if each holds a slice of the outputs.

    In the backward pass, every GPU has its part of the gradient of all inputs, and the parts must be summed. In the forward pass,
    the next layer needs all outputs, so each GPU passes on its slice, unless that layer is split so that the slice is all it
    reads (`gathers_outputs` False).

    >>> model_parallel_elements(1000, 500, 128, gathers_outputs=False), model_parallel_elements(1000, 500, 128)
    (128000.0, 160000.0)
    """
    return float(batch * inputs + (batch * outputs / gpus if gathers_outputs else 0))


def equal_batch(inputs: int, outputs: int, *, gpus: int = 2, gathers_outputs: bool = True) -> float:
    """Return the batch size above which splitting the batch moves less data than splitting the layer.

    >>> equal_batch(1000, 500, gathers_outputs=False), equal_batch(1000, 500)
    (500.0, 400.0)
    """
    one = model_parallel_elements(inputs, outputs, 1, gpus=gpus, gathers_outputs=gathers_outputs)
    return data_parallel_elements(inputs, outputs) / one


def message_count(gpus_per_node: int, nodes: int, *, senders: int | None = None) -> int:
    """Return the messages that leave a node over its one link if `senders` of its GPUs (default: all) send to every GPU
    elsewhere.

    >>> message_count(3, 2, senders=1), message_count(3, 2), message_count(3, 4)
    (3, 9, 27)
    """
    return (gpus_per_node if senders is None else senders) * gpus_per_node * (nodes - 1)
