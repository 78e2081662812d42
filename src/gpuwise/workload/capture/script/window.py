"""Determines which part of a script's run is its training step, and the phase within it.

The recorded step runs from the end of one step of the script's first optimizer to the end of its next, when optimizer state
exists. If several optimizers take turns (a GAN), it is the first full round in which each of them steps and none is new. An
optimizer that does not step again soon is left out, with a note.
"""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._pytree import tree_leaves

from gpuwise.workload.capture.script.modes import ScriptRecorder, is_host

__all__ = ["Enough", "Window"]

_MOST_STEPS = 16  # steps of the first optimizer while waiting for another


class Enough(BaseException):
    """The step is recorded, so the script can stop. Not an Exception, so that a script's own handlers do not catch it."""


class Window:
    """Watches a script through torch's hooks; turns the recorder on for one step, then stops the script."""

    def __init__(self, recorder: ScriptRecorder, say: Callable[[str], None] = lambda text: None) -> None:
        self.done = False
        self.batch: int | None = None
        self.seq: int | None = None
        self.backward_count = 0
        self.evaluations = 0
        self.steps: Counter[int] = Counter()
        self.optimizers: list[torch.optim.Optimizer] = []
        self._models: dict[int, torch.nn.Module] = {}
        self._recorder, self._say = recorder, say
        self._depth = 0
        self._is_new_round = False
        self._in_round: Counter[int] = Counter()
        self._cut: tuple[int, int, int] | None = None  # calls, buffers and backward passes at the first step's end
        self._passes = 0
        self._trained: set[int] = set()
        self._is_evaluating = False

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Listen to every optimizer, module and backward pass of this process."""
        handles = [
            register_optimizer_step_pre_hook(self._before_update),
            register_optimizer_step_post_hook(self._after_update),
            register_module_forward_pre_hook(self._before_forward),
            register_module_forward_hook(self._after_forward, always_call=True, with_kwargs=True),
        ]
        backward, grad = torch.autograd.backward, torch.autograd.grad
        torch.autograd.backward, torch.autograd.grad = self._in_backward(backward), self._in_backward(grad)
        try:
            yield
        finally:
            torch.autograd.backward, torch.autograd.grad = backward, grad
            for handle in handles:
                handle.remove()

    def parameters(self) -> list[torch.Tensor]:
        """Every parameter of the models called and of the optimizers that stepped, once."""
        found = [parameter for model in self._models.values() for parameter in model.parameters()]
        found += [parameter for optimizer in self.optimizers for group in optimizer.param_groups for parameter in group["params"]]
        return list({id(parameter): parameter for parameter in found}.values())

    # ------------------------------------------------------------ modules

    def _before_forward(self, module: torch.nn.Module, args: Any) -> None:
        self._depth += 1
        if self._depth > 1:
            return
        if self._recorder.phase == "optimizer":
            self._recorder.phase = "forward"
        self._sort(module)
        if id(module) not in self._models and next(module.parameters(), None) is not None:
            self._models[id(module)] = module

    def _sort(self, module: torch.nn.Module) -> None:
        """A trained model that now only evaluates (eval, no gradients) is being validated: this is not part of the step."""
        if module.training and torch.is_grad_enabled():
            self._trained.add(id(module))
        elif id(module) in self._trained and not module.training and not torch.is_grad_enabled():
            self._is_evaluating = True
            self._recorder.quiet += 1
            self.evaluations += self._recorder.active

    def _measure(self, given: Any) -> None:
        """The batch is the leading dimension of the first model's input; token ids also have a sequence."""
        tensor = next((leaf for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor) and leaf.dim()), None)
        if tensor is not None:
            self.batch = tensor.shape[0]
            self.seq = tensor.shape[1] if tensor.dim() == 2 and not tensor.is_floating_point() else None

    def _after_forward(self, module: torch.nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        self._depth = max(0, self._depth - 1)
        if self._depth:
            return
        if self._is_evaluating:
            self._is_evaluating = False
            self._recorder.quiet -= 1
        elif self.batch is None and id(module) in self._models:
            self._measure((args, kwargs))

    # ------------------------------------------------------------ backward

    def _in_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            recorder = self._recorder
            if recorder.phase == "backward":
                return original(*args, **kwargs)
            recorder.mark_alive_as_activation()
            recorder.phase, self._passes, depth = "backward", self._passes + 1, self._depth
            try:
                return original(*args, **kwargs)
            finally:
                # What follows (unscaling, clipping) belongs to the update, until a model is called again.
                recorder.phase, self._depth = "optimizer", depth
                recorder.mark(self._gradients(), "gradient")

        return run

    def _gradients(self) -> list[torch.Tensor]:
        return [parameter.grad for parameter in self.parameters() if parameter.grad is not None]

    # ------------------------------------------------------------ optimizers

    def _before_update(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if all(known is not optimizer for known in self.optimizers):
            self.optimizers.append(optimizer)
        for group in optimizer.param_groups:
            # The default on a GPU is the multi-tensor form; for the CPU tensors seen here it would not be.
            if group.get("foreach", False) is None and not group.get("fused") and not isinstance(group.get("lr"), torch.Tensor):
                group["foreach"] = True
        self._recorder.mark(self._gradients(), "gradient")
        self._recorder.phase = "optimizer"

    def _after_update(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if self.done:
            raise Enough
        number = next(place for place, known in enumerate(self.optimizers) if known is optimizer)
        self.steps[number] += 1
        self._in_round[number] += 1
        self._recorder.phase = "forward"
        if number:
            self._is_new_round |= self.steps[number] == 1
        elif not self._recorder.active or self._is_new_round:
            self._begin()
        elif len(self._in_round) == len(self.optimizers):
            self._finish()
            raise Enough
        else:
            recorder = self._recorder
            self._cut = self._cut or (len(recorder.calls), len(recorder.buffers), self._passes)
            if self._in_round[0] >= _MOST_STEPS:
                self.settle()
                raise Enough

    def settle(self) -> bool:
        """Settle for the first step of the first optimizer, if there is one, because the others do not arrive in time."""
        if not self.done and self._cut is not None and not self._is_new_round:
            calls, buffers, self._passes = self._cut
            self._in_round = Counter({0: 1})
            self._finish()
            recorder = self._recorder
            del recorder.calls[calls:], recorder.buffers[buffers:]
            for buffer in recorder.buffers:
                buffer.died = min(buffer.died, calls)
        return self.done

    def _finish(self) -> None:
        self._recorder.stop()
        self.done, self.backward_count = True, self._passes

    def recorded(self) -> list[tuple[torch.optim.Optimizer, int]]:
        """Return each optimizer seen, and how often it steps in the recording."""
        return [(optimizer, self._in_round[number]) for number, optimizer in enumerate(self.optimizers)]

    def _begin(self) -> None:
        """Record from here; what exists already has a place in memory."""
        self._say("recording the script's next optimizer step")
        recorder, self._is_new_round, self._passes = self._recorder, False, 0
        self._in_round, self._cut = Counter(), None
        self.batch, self.evaluations = None, 0
        recorder.start()
        recorder.know(self.parameters(), "weight")
        recorder.know((buffer for model in self._models.values() for buffer in model.buffers()), "weight")
        states = tree_leaves([dict(state) for optimizer in self.optimizers for state in optimizer.state.values()])
        recorder.know((leaf for leaf in states if isinstance(leaf, torch.Tensor) and leaf.dim()), "optimizer")
        recorder.know(self._gradients(), "gradient")
        others = [thing for thing in gc.get_objects() if issubclass(type(thing), FakeTensor) and not is_host(thing)]
        recorder.know((tensor for tensor in others if isinstance(tensor, torch.nn.Parameter)), "weight")
        recorder.know(others, "temporary")
