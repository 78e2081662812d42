"""What a user gives for settings to be tried on this machine, checked and completed with stated defaults."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuwise.core.errors import BadFile, BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.live.tune.scripts import HOOKED
from gpuwise.questions.common.capturing import CaptureQuery, capture_query
from gpuwise.workload import find
from gpuwise.workload.store import zoo

__all__ = ["NAMES", "OwnSetting", "TuneQuery", "buildable", "tune_query"]

NAMES = ("batch", "precision", "channels-last", "compile", "optimizer", "workers", "pinned")
_FOR_MODELS_ONLY = ("seq", "image", "precision", "mode", "optimizer", "compiled", "channels_last", "inputs")
_BUILDS = ("timm:", "torchvision:", "hf:")
_PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "amp-bf16", "amp")
_OPTIMIZERS = ("none", "sgd", "momentum", "adam", "adamw")
_SHORTEST_S, _LONGEST_S = 5.0, 7200.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSetting:
    """A setting that a script takes by a flag; `values` are empty where the usual ones are meant."""

    name: str
    flags: tuple[str, ...]
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneQuery:
    """A model or a script, the settings to try, and how long. `capture` is None for a script; `runs` is the name by which the
    model can be built here."""

    model: str
    runs: str
    capture: CaptureQuery | None
    arguments: tuple[str, ...] = ()
    device: str = ""
    names: tuple[str, ...] = NAMES
    own: tuple[OwnSetting, ...] = ()
    seconds: float = 600.0
    timeout_s: float = 120.0
    seed: int = 0
    assumptions: tuple[Assumption, ...] = ()


def tune_query(
    *,
    model: str,
    arguments: Sequence[str] = (),
    device: str = "",
    names: str = "",
    own: Sequence[str] = (),
    seconds: float = 600.0,
    timeout_s: float = 120.0,
    seed: int = 0,
    batch: int | None = None,
    **captured: Any,
) -> TuneQuery:
    """The question as typed. `captured` are options of a capture: seq, image, precision, mode, optimizer, inputs, ..."""
    _check_times(seconds, timeout_s)
    settings = tuple(_own(text) for text in own)
    tried = _names(names, settings)
    shared: dict[str, Any] = {"device": device, "names": tried, "seconds": seconds, "timeout_s": timeout_s, "seed": seed}
    if find.is_script(model):
        _check_script(model, batch, captured)
        return TuneQuery(model=model, runs=model, capture=None, arguments=tuple(arguments), own=settings, **shared)
    if arguments or settings:
        what = "takes no arguments" if arguments else "has no flags to set"
        raise BadValue(f"{model} is no training script and {what}", hint="name the script: `gpuwise tune train.py -- --epochs 1`")
    _check_runs(captured)
    asked = capture_query(model=model, batch=batch, timeout_s=timeout_s, **{"precision": "fp32", **_given(captured)})
    return TuneQuery(
        model=model,
        runs=buildable(model),
        capture=replace(asked, assumptions=()),
        assumptions=(*_start(captured), *asked.assumptions),
        **shared,
    )


def _given(captured: Mapping[str, Any]) -> dict[str, Any]:
    """Options that were used; a number of 0 is one that was."""
    return {
        name: value for name, value in captured.items() if value is not None and value is not False and value not in ("", (), [])
    }


def _check_runs(captured: Mapping[str, Any]) -> None:
    """Some settings can be predicted and not run here."""
    for name, known in (("precision", _PRECISIONS), ("optimizer", _OPTIMIZERS)):
        if captured.get(name) and captured[name] not in known:
            raise BadValue(
                f"a step with {name} {captured[name]} is predicted only, not run",
                looked_in=", ".join(known),
                hint=f"for example `--{name} {known[-1]}`; `gpuwise predict` answers for the others",
            )


def _start(captured: Mapping[str, Any]) -> tuple[Assumption, ...]:
    if captured.get("precision"):
        return ()
    effect = "what PyTorch does if nothing is said; `--precision` starts from another"
    return (assumed("precision at the start", "fp32", effect),)


def _check_times(seconds: float, timeout_s: float) -> None:
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        raise BadValue(f"{seconds:g} s is no time to measure in", hint="between 5 and 7200 s; 600 if you do not say")
    if not (math.isfinite(timeout_s) and timeout_s > 0):
        raise BadValue(f"a timeout of {timeout_s:g} s is none", hint="seconds that one run may take, such as `--timeout 120`")


def _own(text: str) -> OwnSetting:
    """`workers=--workers {}`, `compile=--compile`, or with values `loader:a,b=--loader {}`."""
    head, equals, flags = text.partition("=")
    name, _, values = head.partition(":")
    words = _words(flags)
    hint = "for example `--set workers='--workers {}'` or `--set loader:old,new='--loader {}'`"
    if not equals or not name.strip() or not words:
        raise BadValue(f"'{text}' says not how the script takes a setting", hint=hint)
    found = OwnSetting(
        name=name.strip(), flags=words, values=tuple(value.strip() for value in values.split(",") if value.strip())
    )
    takes_value = any("{}" in word for word in words)
    if takes_value and not found.values and found.name not in NAMES:
        raise BadValue(
            f"'{found.name}' is a setting of your own: its values are not known", looked_in=", ".join(NAMES), hint=hint
        )
    if len(found.values) > 1 and not takes_value:
        raise BadValue(f"'{text}' has several values and no place for them", hint="write {} where the value goes; " + hint)
    return found


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as fault:
        raise BadValue(f"'{text}' cannot be split into words: {fault}", hint="check its quotes") from None


def _names(text: str, own: Sequence[OwnSetting]) -> tuple[str, ...]:
    known = tuple(dict.fromkeys((*NAMES, *(setting.name for setting in own))))
    wanted = tuple(dict.fromkeys(word.strip().lower() for word in text.split(",") if word.strip()))
    for word in wanted:
        if word not in known:
            raise BadValue(
                f"'{word}' is no setting that is tried", looked_in=", ".join(known), hint="for example `--try batch,precision`"
            )
    return wanted or known


def _check_script(model: str, batch: int | None, captured: Mapping[str, Any]) -> None:
    path = Path(model)
    if not path.is_file():
        what = f"{path} is a folder" if path.is_dir() else f"no script {path}"
        raise BadFile(what, looked_in=str(Path.cwd()), hint="give the path of the training script, such as `examples/train.py`")
    given = _given({**captured, "batch": batch})
    for name in ("batch", *_FOR_MODELS_ONLY):
        if name in given:
            raise BadValue(
                f"{path.name} is a training script and decides its {name.replace('_', ' ')} itself",
                hint=f"pass it to the script: `gpuwise tune {model} -- ARGUMENTS`; {', '.join(HOOKED)} are tried",
            )


def buildable(model: str) -> str:
    """The name under which a library here builds this model."""
    if zoo.has(model):
        source = zoo.entry(model).source.split(",")[0].strip()
        if source.startswith(_BUILDS):
            return source
        raise BadValue(
            f"{model} is known to the zoo by its published sizes, and no library builds it",
            looked_in=zoo.entry(model).source,
            hint="name your own code of it, as `my_model.py:Net`, or a training script",
        )
    if ":" not in model and not model.endswith((".json", ".json.gz")):
        raise find.unknown(model)
    if find.tells_itself(model):
        raise BadValue(
            f"{model} is a workload, which holds no code to run", hint="name the model it was captured from, or a script"
        )
    return model
