"""`train.py`: a whole training script, run on fake tensors until its second optimizer step and then stopped.

The capture contains the user's own loop, loss, optimizer and precision, at the script's batch size. What the script does on the
host (reading data, shuffling) happens for real.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuwise.core.errors import BadFile, BadValue, GpuwiseError, MissingExtra
from gpuwise.kernels.registry import KINDS
from gpuwise.workload.capture.raw import RawCapture
from gpuwise.workload.capture.request import Request
from gpuwise.workload.capture.script.user_files import prepare, text_of
from gpuwise.workload.model.symbols import Description

__all__ = ["record_script"]

_ONE_PROCESS = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}


def record_script(request: Request, say: Callable[[str], None]) -> tuple[RawCapture, Description]:
    """Record one step of the script at its own size, and its name."""
    path = _checked(request)
    try:
        import torch
        from torch._subclasses.fake_tensor import FakeTensorMode
    except ImportError:
        raise MissingExtra("torch", extra="torch", needed_for="capturing a PyTorch script") from None
    from gpuwise.workload.capture.script.modes import Placement, ScriptRecorder
    from gpuwise.workload.capture.script.names import script_names
    from gpuwise.workload.capture.script.values import Values
    from gpuwise.workload.capture.script.window import Window
    from gpuwise.workload.capture.torch.overrides import install
    from gpuwise.workload.capture.torch.stand_ins import gpu_names, swapped

    library = install()
    values, notes = Values(path.parent), list[str]()
    recorder = ScriptRecorder(values)
    placement, window = Placement(recorder), Window(recorder, say)
    say(f"running {path.name} until its second optimizer step")
    names = [*gpu_names(notes.append), *script_names(placement, notes.append)]
    with swapped(names):
        notes += prepare(text_of(path), path.parent)
        with window.watching(), FakeTensorMode(allow_non_fake_inputs=True), recorder, placement:
            _run(path, request.arguments, window)
    del library
    if not window.done:
        raise _too_short(request, sum(window.steps.values()))
    _check_sizes(request, window.batch, window.seq)
    notes += values.notes
    if not placement.uses_cuda:
        notes.append("the script runs on the CPU but is captured as if its tensors were on the GPU")
    if window.evaluations:
        notes.append(f"validation passes between the two steps were left out ({window.evaluations} in total)")
    if window.batch is None:
        notes.append("no model was called with a tensor, so a batch of 1 is assumed")
    notes += _rhythm(window.recorded())
    notes.append("a script is captured only at its own sizes; other batches need another capture")
    capture = RawCapture(window.batch or 1, window.seq, recorder.calls, recorder.buffers, list(dict.fromkeys(notes)))
    passes = {"accumulate": window.backward_count} if window.backward_count > 1 and len(window.optimizers) == 1 else {}
    about = Description(
        model=request.model,
        source="script",
        mode="train",
        precision=_precision(torch, capture, window.parameters()),
        optimizer=" + ".join(dict.fromkeys(_optimizer_name(optimizer) for optimizer, steps in window.recorded() if steps)),
        options=passes,
        parameters=sum(parameter.numel() for parameter in window.parameters()),
    )
    return capture, about


def _checked(request: Request) -> Path:
    path = Path(request.model)
    if not path.is_file():
        what = f"{path} is a folder" if path.is_dir() else f"script {path} not found"
        raise BadFile(what, looked_in=str(Path.cwd()), hint="pass the path of the training script, such as `examples/train.py`")
    if request.settings.mode != "train":
        raise BadValue(
            f"{path.name} is a training script and cannot be captured for inference",
            hint=f"name the model in it, such as `{path.name}:Net`",
        )
    return path.resolve()


def _run(path: Path, arguments: tuple[str, ...], window: Any) -> None:
    """Run the script as `python train.py arguments` would; how it ends after the recording does not matter."""
    from gpuwise.workload.capture.script.window import Enough

    os.environ.setdefault("WANDB_MODE", "disabled")
    if "RANK" in text_of(path):  # written to be started by torchrun
        for name, value in _ONE_PROCESS.items():
            os.environ.setdefault(name, value)
    argv, sys.argv = sys.argv, [str(path), *arguments]
    try:
        runpy.run_path(str(path), run_name="__main__")
    except Enough:
        pass
    except BaseException:
        if not window.settle():
            raise
    finally:
        sys.argv = argv
    window.settle()


def _too_short(request: Request, steps: int) -> GpuwiseError:
    name = Path(request.model).name
    if steps == 0:
        if "keras" in sys.modules or "tensorflow" in sys.modules:
            hint = f"name the function that builds the Keras model, such as `{name}:build`"
        else:
            hint = f"train with a torch.optim optimizer; to capture only the model, name its class, such as `{name}:Net`"
        return GpuwiseError(f"{name} ended without any torch.optim optimizer step", hint=hint)
    what = "one optimizer step" if steps == 1 else f"{steps} optimizer steps, but no complete round"
    return GpuwiseError(
        f"{name} ended after {what}, but gpuwise needs a second one to record",
        hint="train for at least two batches (use a smaller batch or more epochs), if needed with arguments after `--`",
    )


def _check_sizes(request: Request, batch: int | None, seq: int | None) -> None:
    for name, asked, own in (("batch", request.batch, batch), ("seq", request.seq, seq)):
        if asked is not None and asked != own:
            raise BadValue(
                f"{Path(request.model).name} sets its own {name} ({own or 'none'}); --{name} {asked} cannot change it",
                hint=f"pass it to the script, such as `gpuwise capture {request.model} -- --{name} {asked}`, or change it there",
            )


def _precision(torch: Any, capture: RawCapture, parameters: list[Any]) -> str:
    """Return the precision in which the heavy ops of the forward pass run, compared with that of the weights."""
    used = Counter(call.dtype for call in capture.calls if KINDS[call.kind].is_product and call.phase == "forward")
    dtype = used.most_common(1)[0][0] if used else "fp32"
    if dtype not in ("fp16", "bf16"):
        is_tf32 = torch.get_float32_matmul_precision() != "highest"
        return "tf32" if is_tf32 and dtype == "fp32" else "fp32"
    low = sum(parameter.numel() for parameter in parameters if parameter.element_size() == 2)
    if 2 * low > sum(parameter.numel() for parameter in parameters):
        return dtype
    return "amp" if dtype == "fp16" else "amp-bf16"


def _rhythm(recorded: list[tuple[Any, int]]) -> list[str]:
    """Return a note if several optimizers do not simply take turns."""
    if all(steps == 1 for _, steps in recorded):
        return []
    named = [f"{_optimizer_name(optimizer)} (optimizer {place})" for place, (optimizer, _) in enumerate(recorded, 1)]
    inside = [f"{steps} of {name}" for name, (_, steps) in zip(named, recorded, strict=True) if steps]
    outside = [name for name, (_, steps) in zip(named, recorded, strict=True) if not steps]
    notes = [f"one round of the script's optimizers is captured as one step: {', '.join(inside)}"] if len(inside) > 1 else []
    return notes + [
        f"the captured step does not include the update of {name}, which was not repeated in time" for name in outside
    ]


def _optimizer_name(optimizer: Any) -> str:
    name = type(optimizer).__name__.lower()
    return "momentum" if name == "sgd" and any(group.get("momentum") for group in optimizer.param_groups) else name
