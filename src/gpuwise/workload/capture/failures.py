"""Turns an exception from user code into one sentence for its author: what happened, on which line, and what to do.

Framework exceptions are recognised by name, so no framework is imported.
"""

from __future__ import annotations

import argparse
import sys
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

import msgspec

from gpuwise.core.errors import GpuwiseError
from gpuwise.core.text import plain

__all__ = ["Failure", "describe", "is_lack_of_memory", "message_of", "user_line"]

_OWN = str(Path(__file__).parents[2])
_LIBRARIES = (_OWN, *(sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")))
_DATA_DEPENDENT = ("DataDependentOutputException", "DynamicOutputShapeException")
_GPU_ONLY = (
    "apex",
    "flash_attn",
    "bitsandbytes",
    "xformers",
    "triton",
    "deepspeed",
    "transformer_engine",
    "cupy",
    "pycuda",
    "nvidia",
)


class Failure(msgspec.Struct, frozen=True):
    """An error as it is sent to the parent process. `kind` is the name of an error in gpuwise.core.errors."""

    message: str
    looked_in: str = ""
    hint: str = ""
    kind: str = "GpuwiseError"
    known: str = ""


def describe(model: str, error: BaseException) -> Failure:
    """Return the failure to report for an exception during this capture, in characters that can be sent and shown."""
    found = _described(model, error)
    return Failure(plain(found.message), plain(found.looked_in), plain(found.hint), found.kind, plain(found.known))


def _described(model: str, error: BaseException) -> Failure:
    if isinstance(error, GpuwiseError):
        return Failure(error.message, error.looked_in, error.hint, type(error).__name__, error.known)
    if isinstance(error, SystemExit):
        return _exit(model, error)
    if _is_out_of_memory(error):
        return Failure(
            f"capturing {model} ran out of memory{_at(error)}",
            hint="raise the limit, such as `--memory-limit 32GB` (the default is 8 GB), or load less data in the code",
        )
    if isinstance(error, SyntaxError):
        place = f"{Path(error.filename).name} line {error.lineno}" if error.filename else model
        return Failure(
            f"{place} is not valid Python: {error.msg}",
            hint="correct that line, and check it with `python -m py_compile FILE`",
            kind="BadFile",
        )
    if type(error).__name__ in _DATA_DEPENDENT:
        return Failure(
            f"{model} depends on tensor values{_at(error)}, which are not available during a capture",
            hint="make that part depend on shapes only (no `if` on tensors, no .item(), no indexing with boolean masks)",
        )
    reason = message_of(error)
    if "UninitializedParameter" in reason:
        return Failure(
            f"{model} has a layer{_at(error)} whose sizes are unknown until it has run",
            hint="set its sizes, such as nn.Linear(784, 10) instead of nn.LazyLinear(10)",
        )
    says = f"{type(error).__name__}: {reason}" if reason else type(error).__name__
    return Failure(f"{model} could not be captured{_at(error)}: {says}", hint=_hint(model, error))


def message_of(error: BaseException, longest: int = 300) -> str:
    """Return the first line of an exception's message, or an empty string if it has none or cannot produce it."""
    return next((line.strip()[:longest] for line in _text(error).splitlines() if line.strip()), "")


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # its own fault
        return ""


def user_line(trace: TracebackType | None) -> str:
    """Return `train.py line 12`, the innermost line that is in neither gpuwise nor a library; empty if there is none."""
    for frame in reversed(traceback.extract_tb(trace)):
        name = frame.filename
        if not name.startswith((*_LIBRARIES, "<")) and "site-packages" not in name:
            return f"{Path(name).name} line {frame.lineno}"
    return ""


def _at(error: BaseException) -> str:
    line = user_line(error.__traceback__)
    return f" at {line}" if line else ""


def _exit(model: str, error: SystemExit) -> Failure:
    complaint = _argument_complaint(error)
    if complaint is not None:
        return Failure(
            f"{model} does not accept its arguments{_at(error)}: {complaint}",
            hint=f"pass the script's arguments after `--`, such as `gpuwise capture {model} -- --epochs 1`",
        )
    code = error.code if error.code is not None else 0
    return Failure(
        f"{model} ended the program{_at(error)} (sys.exit({code!r:.200})) before a step could be recorded",
        hint="remove that sys.exit, or pass the arguments or files that the code needs to continue",
    )


def _argument_complaint(error: SystemExit) -> str | None:
    """Return the message that argparse printed if it ended the program."""
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_filename == argparse.__file__ and frame.f_code.co_name == "error":
            return str(frame.f_locals.get("message", ""))
        trace = trace.tb_next
    return None


def is_lack_of_memory(text: str) -> bool:
    """Return whether this message says that memory ran out, in the words libraries use (also while they are being loaded)."""
    return any(
        words in text
        for words in (
            "can't allocate memory",
            "Cannot allocate memory",
            "cannot allocate memory",
            "failed to map segment",
            "std::bad_alloc",
            "MemoryError",
            "out of memory",  # a GPU's memory
            "can't start new thread",
        )
    )


def _is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or is_lack_of_memory(_text(error))


def _hint(model: str, error: BaseException) -> str:
    text = f"{type(error).__name__} {_text(error)}"
    for test, hint in (
        (isinstance(error, ModuleNotFoundError), _missing_module(error)),
        (isinstance(error, (FileNotFoundError, NotADirectoryError)), _missing_file(model, error)),
        (
            _is_network(error, text),
            "use local or synthetic data and no pretrained weights, because a capture has no network access",
        ),
        (isinstance(error, EOFError), "remove the keyboard input, because a capture cannot provide any"),
        (
            isinstance(error, PermissionError),
            "run gpuwise with the file permissions that the code needs",
        ),
        (
            "CUDA" in text or "cuda" in text or "NVIDIA" in text,
            "make this part optional and capture without it, because it needs a real GPU or a compiled GPU extension",
        ),
        (
            "Dataset not found" in text,
            "download the dataset to this machine first, or use synthetic data of the same shape",
        ),
        (
            isinstance(error, TypeError) and "argument" in text and not model.endswith(".py"),
            "set the inputs yourself, such as `--input x=batch,3,224,224:fp32`",
        ),
        (
            model.endswith(".py") and "keras" in sys.modules,
            f"name the function that builds the Keras model, such as `{model}:build`",
        ),
    ):
        if test:
            return hint
    return "run the code on its own to see whether it works without gpuwise"


def _missing_module(error: BaseException) -> str:
    name = str(getattr(error, "name", "") or "")
    if name.partition(".")[0] in _GPU_ONLY:
        return f"make the import of {name} optional (try … except ImportError), because a capture cannot run GPU extensions"
    return (
        f"install {name.partition('.')[0] or 'it'} in the same environment as gpuwise, or run gpuwise in your code's environment"
    )


def _missing_file(model: str, error: BaseException) -> str:
    name = getattr(error, "filename", None)
    what = f"check the path '{name}', which is relative to {Path.cwd()}" if name else "check the paths in the code"
    how = (
        f", or pass another path after `--`, such as `gpuwise capture {model} -- --data FOLDER`" if model.endswith(".py") else ""
    )
    return what + how


def _is_network(error: BaseException, text: str) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(
        names & {"URLError", "ConnectionError", "gaierror", "OfflineModeIsEnabled", "LocalEntryNotFoundError", "HTTPError"}
    ) or ("couldn't connect to" in text or "Error downloading" in text or "offline mode" in text.lower())
