"""Removes branches that depend on tensor values, which a capture does not have, from a step of a transformers model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import transformers
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from transformers import masking_utils

from gpuwise.core.errors import BadValue

__all__ = ["fixed_course", "steady"]


def fixed_course(forward: Any) -> Any:
    """Return a step that does not depend on values, which a capture does not have."""

    def run(model: Any, inputs: Any, training: bool) -> Any:
        try:
            with steady():
                return forward(model, inputs, training)
        except (DataDependentOutputException, DynamicOutputShapeException) as fault:
            raise BadValue(
                f"{type(model).__name__} in transformers {transformers.__version__} branches on tensor values ({fault.func})",
                hint="install transformers 5 or newer, which has fewer such branches, or capture your own "
                "version: `my_model.py:build`",
            ) from None

    return run


@contextlib.contextmanager
def steady() -> Iterator[None]:
    """Inside this context, models do not depend on values: rows are full, and every layer runs."""
    with _full_rows(), _no_layer_drop():
        yield


@contextlib.contextmanager
def _full_rows() -> Iterator[None]:
    """Treat every row as one text without padding. transformers reads that from values, then leaves the mask to the attention
    kernel.

    The few small kernels that check whether texts share a row do run; masks of ones that models create themselves count as none.
    """

    def unpacked(plain: Any) -> Any:
        return lambda *args, **kwargs: (plain(*args, **kwargs), None)[1]

    def unpadded(plain: Any) -> Any:
        return lambda padding_mask, *args, **kwargs: plain(None, *args, **kwargs)

    wrappers = {"find_packed_sequence_indices": unpacked} | dict.fromkeys(
        ("_ignore_causal_mask_sdpa", "_ignore_bidirectional_mask_sdpa"), unpadded
    )
    with contextlib.ExitStack() as stack:
        for name, wrap in wrappers.items():
            if (plain := getattr(masking_utils, name, None)) is not None:  # names of transformers 5
                stack.enter_context(_replaced(masking_utils, name, plain, wrap(plain)))
        yield


@contextlib.contextmanager
def _no_layer_drop() -> Iterator[None]:
    """A random number decides whether a layer is skipped. It is replaced with 1, which exceeds every probability, so no layer
    is.
    """
    plain = torch.rand

    def rand(*size: Any, **options: Any) -> Any:
        return 1.0 if size in (([],), ((),), ()) else plain(*size, **options)

    with _replaced(torch, "rand", plain, rand):
        yield


@contextlib.contextmanager
def _replaced(owner: Any, name: str, plain: Any, other: Any) -> Iterator[None]:
    setattr(owner, name, other)
    try:
        yield
    finally:
        setattr(owner, name, plain)
