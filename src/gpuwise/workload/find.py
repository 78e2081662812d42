"""Finds the workload for the MODEL a user names: in the zoo, in a workload file, or by capture."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path

import msgspec

from gpuwise.core.errors import BadValue, GpuwiseError, UnknownName
from gpuwise.core.text import either
from gpuwise.workload.capture.registry import PREFIXES
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.types import Workload
from gpuwise.workload.store import files, zoo

__all__ = ["check_name", "is_script", "only_read", "resolved", "tells_itself", "unknown", "workload"]

_FLAGS = {"implementation": "--optimizer-impl", "channels_last": "--channels-last", "inputs": "--input"}
# The settings with which a script or workload file was captured, unless it says otherwise.
_PLAIN = {"implementation": "foreach", "accumulate": 1, "checkpoint": False, "channels_last": False, "clip": False}
_TOLD_BY_SCRIPTS = ("mode", "precision", "optimizer", "accumulate")
_capturing: ContextVar[bool] = ContextVar("capturing", default=True)


def workload(
    request: Request,
    *,
    asked: Collection[str] = (),
    compiled: bool = False,
    timeout_s: float = 120.0,
    memory_bytes: float = 8 * 2**30,
    progress: Callable[[str], None] = lambda text: None,
) -> Workload:
    """Return the workload for this request. Only `file.py:Net`, `package.module:function` and `script.py` run the user's code.

    `asked` names the settings that the user gave; a script or workload file with different ones is refused. A built-in model is
    captured from its library if it is stored only for images of another size.
    """
    for name, value in (("batch", request.batch), ("seq", request.seq), ("image", request.image)):
        if value is not None and not 1 <= value < 2**31:
            raise BadValue(f"--{name} must be at least 1 and below 2^31, not {value}", hint=f"try `--{name} 32`")
    request = resolved(request) if _capturing.get() else request
    _refuse_what_nobody_uses(request, asked)
    found = _stored(request)
    if found is None and not _capturing.get():
        raise _not_captured(request.model)
    if found is None:
        from gpuwise.workload.capture import process as capture  # not needed for stored models, and slow to import
        from gpuwise.workload.store import cache
        from gpuwise.workload.store.own_code import RestsOn

        seen: list[RestsOn] = []
        found = capture.capture(request, timeout_s=timeout_s, memory_bytes=memory_bytes, progress=progress, rests_on=seen.append)
        cache.keep(request, found, *seen)
    if tells_itself(request.model):
        _agree(found, request, asked)
    return _fused(found) if compiled else found


def resolved(request: Request) -> Request:
    """Return a request for the model that this one means: from a library at another image size than the zoo's, or from the table
    of Hugging Face models if its id or the model it was made from is listed there.
    """
    model = request.model
    if zoo.has(model):
        return zoo.at_its_size(request)
    if ":" in model or model.endswith((".py", *files.ENDINGS)):
        return request
    from gpuwise.workload.capture.huggingface.configs import is_listed  # reads a table that other models do not need
    from gpuwise.workload.capture.huggingface.hub_names import relative_of

    if not is_listed(model) or _exists(Path(model)):
        return request
    relative = relative_of(model)
    same = relative.row if relative is not None and not relative.head and zoo.has(relative.row) else f"hf:{model}"
    return zoo.at_its_size(msgspec.structs.replace(request, model=same))


@contextlib.contextmanager
def only_read() -> Iterator[None]:
    """Prevent captures in this context, so that no framework is started for an untrusted file: models are only read."""
    before = _capturing.set(False)
    try:
        yield
    finally:
        _capturing.reset(before)


def _not_captured(model: str) -> BadValue:
    name = Path(model).name
    return BadValue(
        f"{name} describes the sizes of a model, but not the steps of its training",
        hint=f"capture a step with PyTorch and use the file that this writes: `gpuwise capture {name} -o model.json.gz`",
    )


def _fused(found: Workload) -> Workload:
    from gpuwise.workload.compile.fuse import fused

    return fused(found)


def tells_itself(model: str) -> bool:
    """Return whether the source itself fixes the precision, optimizer and so on, as a training script or a workload file
    does.
    """
    return is_script(model) or _is_workload_file(model)


def is_script(model: str) -> bool:
    """Return whether this names a whole training script."""
    return model.endswith(".py") and model.partition(":")[0] not in PREFIXES


def _is_workload_file(model: str) -> bool:
    return model.endswith(".json.gz") or (model.endswith(".json") and files.is_workload(Path(model)))


def _refuse_what_nobody_uses(request: Request, asked: Collection[str]) -> None:
    """Refuse options that would have no effect: the user must have meant something else."""
    model, prefix = request.model, request.model.partition(":")[0]
    if request.arguments and not is_script(model):
        given = " ".join(request.arguments)
        raise BadValue(
            f"{model} takes no arguments, but '{given:.60}' was given",
            hint="pass arguments only to a training script: `gpuwise capture train.py -- ARGUMENTS`",
        )
    if is_script(model):
        for name in sorted(set(asked) - set(_TOLD_BY_SCRIPTS)):
            raise BadValue(
                f"{Path(model).name} is a training script and sets this itself; {_flag(name)} cannot change it",
                hint=f"change it in the script, or pass arguments to the script: `gpuwise capture {model} -- ARGUMENTS`",
            )
    elif ":" in model:
        if request.phase and prefix != "hf":
            raise BadValue(
                f"{model} has no phase '{request.phase}'",
                hint="leave out --phase, because only hf: models that generate text have phases",
            )
        if request.inputs and prefix in PREFIXES:
            raise BadValue(f"{model} creates its own inputs", hint="leave out --input")


def _agree(found: Workload, request: Request, asked: Collection[str]) -> None:
    """Check that the user's options match the script or file."""
    own: dict[str, object] = _PLAIN | {"image": None, "phase": "", "inputs": ()} | dict(found.options)
    own |= {"mode": found.mode, "precision": found.precision, "optimizer": found.optimizer or "none"}
    for name in sorted(asked):
        wanted = getattr(request.settings, name) if hasattr(request.settings, name) else getattr(request, name)
        if wanted != own[name]:
            has = f"uses {name.replace('_', ' ')} {own[name]}" if own[name] not in (None, "", ()) else f"uses no {name}"
            again = "change the script" if is_script(request.model) else "capture the model again"
            flag = _flag(name) if wanted is True or name == "inputs" else f"{_flag(name)} {wanted}"
            raise BadValue(f"{found.model} {has}; {flag} cannot change that", hint=f"leave out {_flag(name)}, or {again}")


def _flag(name: str) -> str:
    return _FLAGS.get(name, f"--{name}")


def _stored(request: Request) -> Workload | None:
    """Return a workload that does not need to be captured."""
    if request.model.endswith(files.ENDINGS):
        return _resized(files.read(Path(request.model)), request) if _is_workload_file(request.model) else None
    if zoo.has(request.model):
        return _resized(zoo.load(request.model, request), request)
    check_name(request.model)
    from gpuwise.workload.store import cache

    kept = cache.find(request)
    return _resized(kept, request) if kept is not None else None


def _resized(found: Workload, request: Request) -> Workload:
    """Return the same workload at the requested sizes, if it is symbolic in them."""
    for name, wanted, captured in (("batch", request.batch, found.batch), ("seq", request.seq, found.seq)):
        if wanted is None or wanted == captured:
            continue
        if name not in found.symbols:
            held = (
                f"was captured only at {name} {captured}"
                if captured is not None
                else f"has no {'sequence' if name == 'seq' else name} dimension"
            )
            raise BadValue(
                f"{found.model} {held}, so --{name} {wanted} cannot be used",
                hint=f"leave out --{name}" + (", or capture the model again at that size" if captured is not None else ""),
            )
        found = found.sized(batch=wanted) if name == "batch" else found.sized(seq=wanted)
        if found.source == "user_code":
            note = (
                f"{name} {wanted} was derived from the capture; if the code depends on the {name}, capture the model at this size"
            )
            found = replace(found, notes=(*found.notes, note))
    return found


def check_name(model: str) -> None:
    """Refuse a plain name that is not in the zoo. Names with a prefix and files are looked up when they are captured."""
    if ":" in resolved(Request(model=model)).model or model.endswith((".py", *files.ENDINGS)):
        return
    if not zoo.has(resolved(Request(model=model)).model):
        raise unknown(model)


def _not_a_model(path: Path) -> GpuwiseError:
    """Return the error for a folder, or for a file that contains no model."""
    if path.is_dir():
        config = path / "config.json"
        hint = f"use `{config}`" if config.exists() else "pass a file in it, such as `my_model.py:Net` or a model's config.json"
        return BadValue(f"{path} is a folder, not a model", hint=hint)
    known = "`my_model.py:Net`, a model's config.json, or a workload file written by `gpuwise capture -o FILE.json.gz`"
    return BadValue(f"{path} is not a model file that gpuwise can read", hint=f"pass {known}")


def _exists(path: Path) -> bool:
    """Whether it is on the disk; no for names that no file can have."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


_LONGEST_NAME = 100  # characters that an error repeats
_VIDEO = re.compile(r"video|^svd|^wan(\d|ai|$)|^ltx|mochi|animatediff|opensora|stepvideo|^sora|skyreels")  # well-known names


def unknown(model: str) -> GpuwiseError:
    """Return the error for a name that no source has."""
    if _exists(Path(model)):
        return _not_a_model(Path(model))
    model = model if len(model) <= _LONGEST_NAME else model[:_LONGEST_NAME] + "…"
    from gpuwise.workload.language.find import known_id  # reads tables that other models do not need

    if hub := known_id(model):
        return BadValue(
            f"gpuwise includes '{model}' only for text generation, not for training or single steps",
            looked_in=f"the {len(zoo.names())} models whose steps are included",
            hint=f"use `hf:{hub}`, which captures the model with PyTorch; for text, use `gpuwise predict {model} --mode infer`",
        )
    if _VIDEO.search(re.sub(r"[^a-z0-9]", "", model.lower())):
        return UnknownName(
            f"gpuwise does not include models that generate video, such as '{model}'",
            looked_in=f"the {len(zoo.names())} built-in models",
            hint="capture one step of the denoiser from your own code, such as `my_model.py:Net`; images: `gpuwise predict sdxl`",
        )
    typed = re.sub(r"(?i)(?<=\d)o|o(?=\d)", "0", model)  # the letter instead of the digit
    near = (typed,) if zoo.has(typed) else zoo.close(model)
    meant = "did you mean " + either(f"`{name}`" for name in near) + "? " if near else ""
    other = "Otherwise," if near else "list the built-in models with `gpuwise models`, or"
    return UnknownName(
        f"unknown model '{model}'",
        looked_in=f"the {len(zoo.names())} built-in models (models from timm, torchvision, hf and keras need a prefix)",
        hint=f"{meant}{other} use a prefix or a file, such as `timm:{model}`, `hf:{model}` or `my_model.py:Net`",
    )
