"""Turns the options of `tune` into its question: the step by batch, by power limit, or settings to try on this machine."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from gpuwise.core.errors import BadFile, BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.live.tune.scripts import HOOKED
from gpuwise.questions.common.capturing import CaptureQuery, capture_query
from gpuwise.questions.common.options import names
from gpuwise.questions.common.step import StepQuery, step_query
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.tune.options import TuneOptions
from gpuwise.workload import find
from gpuwise.workload.store import zoo

__all__ = ["NAMES", "OwnSetting", "PowerQuery", "TuneQuery", "ask", "buildable"]

NAMES = ("batch", "precision", "channels-last", "compile", "optimizer", "workers", "pinned")
_PREDICTED = ("gpu", "stack", "cpu", "on_this_machine")  # options of questions about any GPU
_MEASURED = ("device", "try_", "set", "seconds", "seed", "batch", "input")  # options of runs on this machine
_POWER = ("limits", "apply", "device", "batch", "seed")  # options of `tune power`
_FOR_MODELS_ONLY = ("batch", "seq", "image", "precision", "mode", "optimizer", "compile", "channels_last", "input")
_BUILDS = ("timm:", "torchvision:", "hf:")
_PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "amp-bf16", "amp")
_OPTIMIZERS = ("none", "sgd", "momentum", "adam", "adamw")
_SHORTEST_S, _USUAL_S, _LONGEST_S = (
    5.0,
    600.0,
    7200.0,
)  # less time allows one run at most; more than two hours is probably a typing error


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSetting:
    """A setting that a script takes as a flag; `values` are empty for the default ones."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerQuery:
    """A model on one GPU and the limits to compare; with `apply`, the limits are set on the card in this machine."""

    step: StepOptions
    limits: str = ""
    apply: bool = False
    device: str = ""
    seed: int = 0


def ask(options: TuneOptions) -> StepQuery | PowerQuery | TuneQuery:
    """Return the question, after checking it: the step by batch, by power limit, or settings to try on this machine."""
    what, model, arguments = _parse_subject(names(options.subject))
    _refuse_others(what, options)
    if what == "batch":
        return step_query(_step_options(options, model), on_this_machine=options.on_this_machine)
    if what == "power":
        return _power_query(options, model)
    return _settings_query(options, model, arguments)


def _parse_subject(words: Sequence[str]) -> tuple[str, str, tuple[str, ...]]:
    """Return what to tune (empty for settings on this machine), the model, and arguments for a script."""
    if not words:
        raise BadValue(
            "no model or script to tune was given",
            hint="run `gpuwise tune train.py` to try settings on this machine, or "
            '`gpuwise tune batch resnet50 --gpu "RTX 3090"` to predict them',
        )
    first, *rest = words
    if first not in ("batch", "power"):
        return "", first, tuple(rest)
    if len(rest) != 1:
        raise BadValue(
            f"`tune {first}` takes one model, not {len(rest)}",
            hint=f'try `gpuwise tune {first} resnet50 --gpu "RTX 3090"`',
        )
    return first, rest[0], ()


def _refuse_others(what: str, options: TuneOptions) -> None:
    """Refuse options without effect, which must be a mistake."""
    unused = {
        "batch": {*_MEASURED, *_POWER},
        "power": {*_MEASURED, "on_this_machine"} - set(_POWER),
        "": {*_PREDICTED, *_POWER} - set(_MEASURED),
    }[what]
    given = {one.name for one in fields(options) if _is_given(getattr(options, one.name))}
    for name in sorted(unused & given):
        raise BadValue(
            f"--{name.rstrip('_').replace('_', '-')} has no effect on `gpuwise tune {what or 'MODEL'}`",
            hint="run `gpuwise tune --help` for a description of each option",
        )


def _is_given(value: object) -> bool:
    """Return whether an option was used; a number of 0 counts as used."""
    return value is not None and value is not False and value not in ("", (), [])


def _step_options(options: TuneOptions, model: str) -> StepOptions:
    return StepOptions(
        model,
        gpu=options.gpu,
        batch=options.batch,
        seq=options.seq,
        image=options.image,
        precision=options.precision,
        mode=options.mode,
        optimizer=options.optimizer,
        compile=options.compile,
        channels_last=options.channels_last,
        stack=options.stack,
        cpu=options.cpu,
        timeout=options.timeout,
    )


def _power_query(options: TuneOptions, model: str) -> PowerQuery:
    if options.apply and options.gpu:
        raise BadValue("--apply works only on a card in this machine", hint="leave out `--gpu`")
    if options.device and not options.apply:
        raise BadValue("--device works only with --apply; predictions take a GPU by name", hint='try `--gpu "RTX 3090"`')
    return PowerQuery(
        step=_step_options(options, model),
        limits=options.limits,
        apply=options.apply,
        device=options.device,
        seed=options.seed or 0,
    )


def _settings_query(options: TuneOptions, model: str, arguments: tuple[str, ...]) -> TuneQuery:
    seconds = _USUAL_S if options.seconds is None else options.seconds
    _check_times(seconds, options.timeout)
    settings = tuple(_own(text) for text in names(options.set))
    shared = TuneQuery(
        model=model,
        runs=model,
        capture=None,
        device=options.device,
        names=_names(options.try_, settings),
        seconds=seconds,
        timeout_s=options.timeout,
        seed=options.seed or 0,
    )
    if find.is_script(model):
        _check_script(model, options)
        return replace(shared, arguments=arguments, own=settings)
    if arguments or settings:
        what = "takes no arguments" if arguments else "has no flags to set"
        raise BadValue(
            f"{model} is a model, not a training script, so it {what}",
            hint="name the training script, such as `gpuwise tune train.py -- --epochs 1`",
        )
    _check_runs(options)
    asked = _capture(options, model)
    return replace(
        shared,
        runs=buildable(model),
        capture=replace(asked, assumptions=()),
        assumptions=(*_start(options), *asked.assumptions),
    )


def _capture(options: TuneOptions, model: str) -> CaptureQuery:
    return capture_query(
        model=model,
        batch=options.batch,
        seq=options.seq,
        image=options.image,
        precision=options.precision or "fp32",
        mode=options.mode,
        optimizer=options.optimizer,
        channels_last=options.channels_last,
        compiled=options.compile,
        inputs=names(options.input),
        timeout_s=options.timeout,
    )


def _check_runs(options: TuneOptions) -> None:
    """Refuse settings that can be predicted but not run here."""
    for name, value, known in (("precision", options.precision, _PRECISIONS), ("optimizer", options.optimizer, _OPTIMIZERS)):
        if value and value not in known:
            raise BadValue(
                f"{name} {value} can be predicted, but it cannot run on this machine",
                known=", ".join(known),
                hint=f"try `--{name} {known[-1]}`; `gpuwise predict` handles the others",
            )


def _start(options: TuneOptions) -> tuple[Assumption, ...]:
    if options.precision:
        return ()
    return (assumed("precision at the start", "fp32", "PyTorch's default; use `--precision` to start from another precision"),)


def _check_times(seconds: float, timeout_s: float) -> None:
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        raise BadValue(
            f"invalid --seconds {seconds:g}",
            hint=f"give a number between {_SHORTEST_S:g} and {_LONGEST_S:g}; the default is {_USUAL_S:g}",
        )
    if not (math.isfinite(timeout_s) and timeout_s > 0):
        raise BadValue(f"invalid --timeout {timeout_s:g}: it must be a positive number of seconds", hint="try `--timeout 120`")


def _own(text: str) -> OwnSetting:
    """Parse `workers=--workers {}`, `compile=--compile`, or with values `loader:a,b=--loader {}`."""
    head, equals, flags = text.partition("=")
    name, _, values = head.partition(":")
    words = _words(flags)
    hint = "try `--set workers='--workers {}'` or `--set loader:old,new='--loader {}'`"
    if not equals or not name.strip() or not words:
        raise BadValue(f"'{text}' does not specify how to pass the setting to the script", hint=hint)
    found = OwnSetting(
        name=name.strip(), flags=words, values=tuple(value.strip() for value in values.split(",") if value.strip())
    )
    takes_value = any("{}" in word for word in words)
    if takes_value and not found.values and found.name not in NAMES:
        raise BadValue(f"'{found.name}' is a custom setting, so its values must be listed", known=", ".join(NAMES), hint=hint)
    if len(found.values) > 1 and not takes_value:
        raise BadValue(
            f"'{text}' lists several values but does not specify where they go", hint="write {} where the value goes; " + hint
        )
    return found


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as fault:
        raise BadValue(f"'{text}' cannot be split into words ({fault})", hint="check the quotes") from None


def _names(text: str, own: Sequence[OwnSetting]) -> tuple[str, ...]:
    known = tuple(dict.fromkeys((*NAMES, *(setting.name for setting in own))))
    wanted = tuple(dict.fromkeys(word.strip().lower() for word in text.split(",") if word.strip()))
    for word in wanted:
        if word not in known:
            raise BadValue(f"unknown setting '{word}'", known=", ".join(known), hint="try `--try batch,precision`")
    return wanted or known


def _check_script(model: str, options: TuneOptions) -> None:
    path = Path(model)
    if not path.is_file():
        what = f"{path} is a folder" if path.is_dir() else f"script {path} not found"
        raise BadFile(what, looked_in=str(Path.cwd()), hint="give the path of the training script, such as `examples/train.py`")
    for name in _FOR_MODELS_ONLY:
        if _is_given(getattr(options, name)):
            raise BadValue(
                f"{path.name} is a training script and sets its own {name.replace('_', ' ')}",
                hint=f"pass it to the script with `gpuwise tune {model} -- ARGUMENTS`; gpuwise tries {', '.join(HOOKED)}",
            )


def buildable(model: str) -> str:
    """Return the name under which an installed library builds this model."""
    if zoo.has(model):
        source = zoo.entry(model).source.split(",")[0].strip()
        if source.startswith(_BUILDS):
            return source
        raise BadValue(
            f"only the published sizes of {model} are known, and no installed library can build the model",
            looked_in=zoo.entry(model).source,
            hint="name your own implementation, such as `my_model.py:Net`, or a training script",
        )
    if ":" not in model and not model.endswith((".json", ".json.gz")):
        raise find.unknown(model)
    if find.tells_itself(model):
        raise BadValue(
            f"{model} is a workload file, which contains no code to run",
            hint="name the model that it was captured from, or a script",
        )
    return model
