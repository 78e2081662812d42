"""What is trained: all weights, or adapters on frozen ones (LoRA, QLoRA, DoRA); checks the user's choice."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import the
from gpuwise.hardware.types import Gpu, supported
from gpuwise.prediction.choices import METHODS, RANK
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.workload import find
from gpuwise.workload.model.types import Workload
from gpuwise.workload.transform.targets import TARGETS, chosen_modules, linear_modules

__all__ = ["TITLES", "Tuning", "check_method", "check_targets", "tuning_of", "usual_low"]

TITLES = {"lora": "LoRA", "qlora": "QLoRA", "dora": "DoRA"}
_KNOWN = ("full", *METHODS)
_OPTIMIZERS = ("", "adam", "adamw")
_NO_BITSANDBYTES = ("Apple", "Google")
_HELD_IN = {"qlora": "nf4"}
_MOST_RANK = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Adapters of this `rank` on the linear layers that `targets` names; `method` is one of `METHODS`."""

    method: str
    rank: int = RANK
    targets: str = "all"

    def title(self, precision: str) -> str:
        """As an answer states it: `QLoRA, rank 16, weights in nf4`."""
        where = "" if self.targets == "all" else f" on {self.targets}"
        return f"{TITLES[self.method]}, rank {self.rank}{where}, weights in {_HELD_IN.get(self.method, precision)}"


def tuning_of(options: StepOptions, gpus: Sequence[Gpu], notes: list[Assumption]) -> Tuning | None:
    """Return the requested adapters, or None if all weights are trained. Assumptions are added to `notes`."""
    method = check_method(options.method)
    if method in ("", "full"):
        _refuse_without_adapters(options)
        if method and options.mode == "infer":
            raise _not_trained(method)
        return None
    if options.mode == "infer" or options.phase:
        raise _not_trained(method)
    _check_model(options, method, gpus)
    if options.rank is None:
        notes.append(assumed("rank", str(RANK), "a common adapter rank; change it with `--rank`"))
    elif not 1 <= options.rank <= _MOST_RANK:
        raise BadValue(f"invalid --rank {options.rank}", hint=f"give a number between 1 and {_MOST_RANK}; 8 to 64 is typical")
    return Tuning(method=method, rank=options.rank or RANK, targets=options.targets.strip() or "all")


def check_method(typed: str) -> str:
    """Return a method of training as we spell it, or nothing if none is given."""
    method = typed.strip().lower()
    if method and method not in _KNOWN:
        near = difflib.get_close_matches(method, _KNOWN, n=1)
        hint = f"did you mean `--method {near[0]}`?" if near else "try `--method lora`"
        raise BadValue(f"unknown method '{typed}'", known=", ".join(_KNOWN), hint=hint)
    return method


def _refuse_without_adapters(options: StepOptions) -> None:
    for flag, given in (("--rank", options.rank is not None), ("--targets", bool(options.targets))):
        if given:
            raise BadValue(
                f"{flag} applies to adapters, but this run trains all weights", hint=f"add `--method lora`, or leave out {flag}"
            )


def _not_trained(method: str) -> BadValue:
    hint = "leave out --method, or use `--mode train`"
    if method == "qlora":
        hint += "; for inference with 4-bit weights, use `--weights nf4`"
    return BadValue(f"--method {method} has no effect on inference", hint=hint)


def _check_model(options: StepOptions, method: str, gpus: Sequence[Gpu]) -> None:
    """Refuse models on which adapters cannot be used, and settings or GPUs that cannot train them."""
    if find.tells_itself(options.model):
        raise BadValue(
            f"{options.model} sets its own run options, so --method {method} cannot change what it trains",
            hint="name a model instead, such as `llama-3-8b`",
        )
    if options.optimizer not in _OPTIMIZERS:
        raise BadValue(
            f"predictions for --method {method} assume AdamW, not {options.optimizer}",
            hint="leave out `--optimizer`; the optimizer states of adapters are small",
        )
    if options.precision not in ("", "bf16", "fp16"):
        raise BadValue(
            f"--method {method} stores frozen weights in a 16-bit type, not in {options.precision}",
            hint="use `--precision bf16` or `--precision fp16`, or leave it out",
        )
    for gpu in gpus:
        if method == "qlora" and gpu.vendor in _NO_BITSANDBYTES:
            raise BadValue(
                f"the QLoRA kernels (bitsandbytes) do not run on {the(gpu.name)}", hint="use `--method lora` or another GPU"
            )


def usual_low(gpus: Sequence[Gpu]) -> str:
    """Return the 16-bit type in which frozen weights are stored on these GPUs."""
    return "bf16" if all("bf16" in supported(gpu) for gpu in gpus) else "fp16"


def check_targets(workload: Workload, tuning: Tuning) -> None:
    """Refuse a model without the layers for these adapters."""
    layers = linear_modules(workload)
    if not layers or "batch" not in workload.symbols:
        raise BadValue(
            f"{workload.model} has no linear layers in repeated blocks to add adapters to",
            hint="leave out `--method` to train all of its weights",
        )
    if not chosen_modules(layers, tuning.targets):
        names = sorted({path.rpartition(".")[2] for path in layers})
        raise BadValue(
            f"no linear layer of {workload.model} is called '{tuning.targets}'",
            known=", ".join(names),
            hint=f"use {', '.join(TARGETS[:-1])} or {TARGETS[-1]}, or give layer names, such as `--targets {names[0]}`",
        )
