"""`gpuwise tune`: which batch, which power limit, and which settings, predicted or measured here."""

from __future__ import annotations

from typing import Annotated, Any, Optional

import typer

from gpuwise import api
from gpuwise.core.errors import BadValue
from gpuwise.surfaces.cli import options
from gpuwise.surfaces.cli.output import print_answer, show_progress

__all__ = ["tune"]

_PREDICTED = ("gpu", "stack", "cpu", "on_this_machine")  # questions about any GPU
_MEASURED = ("device", "names", "own", "seconds", "seed", "batch", "inputs")  # runs on this machine
_POWER = ("limits", "apply", "device", "batch", "seed")


def tune(
    words: Annotated[
        Optional[list[str]],
        typer.Argument(
            metavar="[WHAT] MODEL [-- ARGS]",
            help="`batch MODEL` or `power MODEL` for any GPU; MODEL, file.py:Net or train.py alone: settings, tried here.",
        ),
    ] = None,
    gpu: options.GpuNames = None,
    batch: Annotated[Optional[int], typer.Option(help="The batch to start from.")] = None,
    seq: Annotated[Optional[int], typer.Option(help="Sequence length in tokens.")] = None,
    image: options.Image = None,
    inputs: options.Inputs = None,
    precision: options.Precision = "",
    mode: options.Mode = "",
    optimizer: options.Optimizer = "",
    compiled: options.Compiled = False,
    channels_last: options.ChannelsLast = False,
    stack: options.Stack = "",
    cpu: options.Cpu = "",
    on_this_machine: Annotated[
        bool, typer.Option("--on-this-machine", help="batch: for the device that `gpuwise bench` measured here.")
    ] = False,
    device: Annotated[
        str, typer.Option(help="Where to run: cpu, cuda:0 or mps; the fastest that torch sees if you do not say.")
    ] = "",
    names: Annotated[
        str,
        typer.Option(
            "--try", help="batch, precision, channels-last, compile, optimizer, workers, pinned; all if you do not say."
        ),
    ] = "",
    own: Annotated[
        Optional[list[str]], typer.Option("--set", help="How a script takes a setting: workers='--workers {}'; may be repeated.")
    ] = None,
    limits: Annotated[str, typer.Option("--limits", help="power: the limits to look at, such as 200W,250W,300W.")] = "",
    apply: Annotated[
        bool, typer.Option("--apply", help="power: set each limit on this NVIDIA card, measure, and restore it.")
    ] = False,
    seconds: Annotated[
        Optional[float], typer.Option(help="The most that trying may take; 600 if you do not say; it ends when stable.")
    ] = None,
    seed: Annotated[Optional[int], typer.Option(help="Of the random order of runs.")] = None,
    timeout_s: Annotated[float, typer.Option("--timeout", help="Seconds that a capture, or one run, may take.")] = 120.0,
    json: options.AsJson = False,
) -> None:
    """Try settings on this machine in short measured runs (batch, precision, channels-last, compile, optimizer, workers, pinned
    memory), each beside its prediction, and say which are faster together.

    `tune batch`: the batch that gives 90, 95 and 99 % of the speed, for any GPU. `tune power`: time and energy by power limit.
    """
    given = {key: value for key, value in locals().items() if key not in ("json", "words") and _is_given(value)}
    what, model, arguments = _parsed(words or [])
    _refuse_others(what, given)
    answer, render = {"batch": _batch, "power": _power}.get(what, _settings)(model, arguments, given)
    print_answer(answer, render, json=json)


def _is_given(value: object) -> bool:
    """Whether an option was used; a number of 0 is one that was."""
    return value is not None and value is not False and value not in ("", [])


def _parsed(words: list[str]) -> tuple[str, str, list[str]]:
    """What is tuned (empty: settings, on this machine), the model, and arguments for a script."""
    if not words:
        raise BadValue(
            "nothing to tune was named",
            hint='`gpuwise tune train.py` tries settings here; `gpuwise tune batch resnet50 --gpu "RTX 3090"` predicts',
        )
    first, *rest = words
    if first not in ("batch", "power"):
        return "", first, rest
    if len(rest) != 1:
        raise BadValue(
            f"`tune {first}` takes one model, not {len(rest)}",
            hint=f'for example `gpuwise tune {first} resnet50 --gpu "RTX 3090"`',
        )
    return first, rest[0], []


def _refuse_others(what: str, given: dict[str, Any]) -> None:
    """An option that would change nothing is a question misunderstood."""
    unused = {
        "batch": {*_MEASURED, *_POWER},
        "power": {*_MEASURED, "on_this_machine"} - set(_POWER),
        "": {*_PREDICTED, *_POWER} - set(_MEASURED),
    }[what]
    flags = {"names": "--try", "own": "--set", "on_this_machine": "--on-this-machine", "inputs": "--input"}
    for name in sorted(unused & given.keys()):
        raise BadValue(
            f"{flags.get(name, f'--{name}')} changes nothing in `gpuwise tune {what or 'MODEL'}`",
            hint="`gpuwise tune --help` says what each option is for",
        )


def _batch(model: str, arguments: list[str], given: dict[str, Any]) -> tuple[Any, Any]:
    from gpuwise.questions.tune.text import render

    return api.tune("batch", api.predict_query(**{"gpu": (), "model": model, **given}), progress=show_progress), render


def _power(model: str, arguments: list[str], given: dict[str, Any]) -> tuple[Any, Any]:
    from gpuwise.questions.tune.power_text import render_power

    return api.tune_power(api.power_query(model=model, **given), progress=show_progress), render_power


def _settings(model: str, arguments: list[str], given: dict[str, Any]) -> tuple[Any, Any]:
    from gpuwise.questions.tune.measured_text import render_measured

    return api.tune_measured(api.tune_query(model=model, arguments=arguments, **given), progress=show_progress), render_measured
