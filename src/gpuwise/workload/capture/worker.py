"""The capturing process: takes one request, records the model, and writes a workload file or an error.

Started by `gpuwise.workload.capture.process`. User code runs here, never in the parent process.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.core.processes import end_descendants, limit_memory, stand_guard
from gpuwise.core.text import counted
from gpuwise.workload.capture.failures import describe
from gpuwise.workload.capture.raw import RawCapture
from gpuwise.workload.capture.registry import source_of, subject_of
from gpuwise.workload.capture.request import Request
from gpuwise.workload.capture.script.reading import watch_reading
from gpuwise.workload.model.symbols import Description, join
from gpuwise.workload.model.types import Workload
from gpuwise.workload.store import files

__all__ = ["main", "record", "run", "run_many"]

Say = Callable[[str], None]
Point = tuple[int, int | None]
_BATCHES = (2, 3, 5, 8)
_RESERVE_BYTES = 2**24


def record(request: Request, say: Say = lambda text: None) -> Workload:
    """Capture the model at several sizes and join them into one symbolic workload."""
    if source_of(request.model) == "script":
        from gpuwise.workload.capture.script.source import record_script

        step, about = record_script(request, say)
        return join([step], about)
    say("importing the framework and building the model")
    with _no_collection():
        subject = subject_of(request)
        from gpuwise.workload.capture.torch.step import capture

    settings = request.settings
    wanted: Point = (request.batch or subject.batch, (request.seq or subject.seq) if subject.seq is not None else None)
    if request.seq is not None and subject.seq is None:
        raise BadValue(f"{request.model} has no sequence, but --seq {request.seq} was given", hint="leave out --seq")
    points = _points(subject, wanted, source_of(request.model) == "user_code")
    say(f"recording a step ({settings.mode}) at {counted(len(points), 'size')}")
    captures, parameters = _captured(capture, subject, settings, points, wanted)
    about = Description(
        model=request.model,
        source=source_of(request.model),
        mode=settings.mode,
        precision=settings.precision,
        optimizer=settings.optimizer if settings.mode == "train" else "",
        options=_options(request),
        parameters=parameters,
    )
    say("joining the sizes into one symbolic workload")
    workload = join(captures, about)
    if not workload.symbols and len(captures) > 1:
        notes = workload.notes
        if wanted in points:
            captures = [captures[points.index(wanted)]]
        else:
            captures, _ = capture(subject, settings, [wanted])
        fixed = join(captures, about)
        return replace(fixed, notes=tuple(dict.fromkeys((*notes, *fixed.notes))))
    return replace(workload, batch=wanted[0], seq=wanted[1])


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Importing a framework creates millions of permanent objects; searching them for garbage takes a tenth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _captured(capture: Any, subject: Any, settings: Any, points: list[Point], wanted: Point) -> tuple[list[RawCapture], int]:
    """Return the captures at these sizes, or only at the requested one if the model does not run at others."""
    models: list[Any] = []

    def build() -> Any:
        models.append(subject.build())
        return models[-1]

    found, parameters = _at_all_or_one(capture, replace(subject, build=build), settings, points, wanted)
    if settings.checkpoint and not _recomputes(models[-1]) and not any("checkpointing" in note for note in subject.notes):
        found[0].notes.append("--checkpoint has no effect, because the model has no list of repeated blocks to recompute")
    return found, parameters


def _at_all_or_one(capture: Any, subject: Any, settings: Any, points: list[Point], wanted: Point) -> tuple[list[RawCapture], int]:
    try:
        found, parameters = capture(subject, settings, points)
    except GpuwiseError:
        raise
    except Exception as fault:
        reason = str(fault).strip().splitlines()[0][:200] if str(fault).strip() else type(fault).__name__
        found, parameters = capture(subject, settings, [wanted])
        found[0].notes.append(f"valid only at the captured size, because the model does not run at other sizes ({reason})")
    return found, parameters


def _points(subject: Any, wanted: Point, is_users: bool) -> list[Point]:
    """Return sizes to fit on and, last, one to verify on.

    User code is also verified at the requested size, because it may branch on it. Any model is also verified at a requested size
    of one, because dimensions of one behave differently.
    """
    if subject.seq is None:
        points: list[Point] = [(batch, None) for batch in _BATCHES]
    else:
        short, long, check = subject.seqs
        points = [(2, short), (3, short), (2, long), (3, long), (5, check)]
    return [*points, wanted] if wanted not in points and (is_users or 1 in wanted) else points


def _recomputes(model: Any) -> bool:
    """Return whether --checkpoint found a block of this model to recompute: its forward is then one of ours."""
    own = (vars(module).get("forward") for module in model.modules())
    return any(getattr(forward, "__module__", "").startswith("gpuwise.") for forward in own)


def _options(request: Request) -> dict[str, Any]:
    """Return the choices that differ from the defaults, for the record."""
    chosen = msgspec.to_builtins(request.settings)
    plain = msgspec.to_builtins(type(request.settings)())
    kept = {key: value for key, value in chosen.items() if value != plain[key] and key not in ("mode", "precision", "optimizer")}
    sizes = {key: value for key, value in (("image", request.image), ("phase", request.phase or None)) if value is not None}
    return kept | sizes


def main(request_path: str, result_path: str, status_path: str, seen_path: str) -> int:
    """Process one request file. Exit code 0: a workload was written, with its dependencies; 3: a failure was written."""
    _tell_where_it_stands()
    limit_memory()
    reserve = bytearray(_RESERVE_BYTES)
    request = msgspec.json.decode(Path(request_path).read_bytes(), type=Request)
    status, own = Path(status_path), os.getpid()
    told = watch_reading() if source_of(request.model) in ("user_code", "script") else None
    try:
        workload = record(request, lambda text: _write(status, text))
        if os.getpid() == own:
            if told is not None:
                Path(seen_path).write_bytes(msgspec.json.encode(told()))
            Path(result_path).write_bytes(files.encode(workload))
        return 0
    except BaseException as error:  # whatever user code raises is reported to its author
        del reserve  # so that there is memory left to report the lack of it
        if os.getpid() != own:  # a child forked by user code got here
            os._exit(1)
        failure = describe(request.model, error)
    Path(result_path).write_bytes(msgspec.json.encode(failure))
    return 3


def _write(status: Path, text: str) -> None:
    status.write_text(text, encoding="utf-8")


def _tell_where_it_stands() -> None:
    """Print the stack on a crash, and when the parent asks (SIGUSR1) before it ends this process for taking too long."""
    faulthandler.enable()
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, all_threads=False)


def run(request_path: str, result_path: str, status_path: str, seen_path: str) -> None:
    """Process one request and end the process."""
    stand_guard()
    exit_code = main(request_path, result_path, status_path, seen_path)
    with contextlib.suppress(ValueError, OSError):
        sys.stdout.flush()
    end_descendants()
    os._exit(exit_code)  # threads and exit handlers of user code must not delay the exit


def run_many(folder: str) -> None:
    """Process the requests in a folder one after another, writing each result atomically to its own file."""
    stand_guard()
    place = Path(folder)
    for number, request in enumerate(msgspec.json.decode((place / "requests").read_bytes(), type=list[Request])):
        try:
            data, ending = files.encode(record(request)), "workload"
        except Exception as error:
            data, ending = msgspec.json.encode(describe(request.model, error)), "failure"
        draft = place / f"{number}.new"
        draft.write_bytes(data)
        draft.replace(place / f"{number}.{ending}")
        gc.collect()
    end_descendants()
    os._exit(0)
