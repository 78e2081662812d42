"""Tracks which module is running, in the forward pass and in its backward pass.

Forward: a stack kept by global module hooks. Backward: each module labels the autograd nodes it created, and the node that the
engine is running gives the label. Holds no tensors, so that lifetimes remain those of the program.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

__all__ = ["ModuleNames"]

_LABEL = "gpuwise_module"


class ModuleNames:
    """While entered, `current()` is the path of the innermost running module, without the root's name."""

    def __init__(self) -> None:
        self._names: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()
        self._stack: list[str] = []
        self._hooks: list[Any] = []

    def __enter__(self) -> ModuleNames:
        hook = torch.nn.modules.module
        self._hooks = [
            hook.register_module_forward_pre_hook(self._entered),
            hook.register_module_forward_hook(self._left, always_call=True),
        ]
        return self

    def __exit__(self, *problem: Any) -> None:
        for hook in self._hooks:
            hook.remove()
        self._stack.clear()

    def current(self) -> str:
        """Return the running module, or an empty string if none is running."""
        if self._stack:
            return self._stack[-1]
        node = torch._C._current_autograd_node()
        return str(node.metadata.get(_LABEL, "")) if node is not None else ""

    def _entered(self, module: torch.nn.Module, args: Any) -> None:
        if module not in self._names:
            parent = self._stack[-1] if self._stack else ""
            self._learn(module, parent)
        self._stack.append(self._names[module])

    def _learn(self, module: torch.nn.Module, name: str) -> None:
        """Name a module and everything below it, by attribute path."""
        for path, child in module.named_modules():
            self._names.setdefault(child, ".".join(filter(None, (name, path))))

    def _left(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if self._stack:
            name = self._stack.pop()
            for leaf in tree_leaves(output):
                if isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None:
                    _label(leaf.grad_fn, name)


def _label(node: Any, name: str) -> None:
    """Label the nodes this module added: from its output back to nodes that already have a label."""
    for found in _unlabelled(node):
        found.metadata[_LABEL] = name


def _unlabelled(start: Any) -> Iterator[Any]:
    waiting = [start]
    while waiting:
        node = waiting.pop()
        if node is None or _LABEL in node.metadata:
            continue
        yield node
        waiting += [before for before, _ in node.next_functions]
