"""Fine-tuning rows: adapters, recomputation and gradient accumulation, run as in the sources' own code.

A row names its method. What it omits (rank, layers, the loss, how the base is prepared) was read from the source's code and is
kept in `data/tuning.json`. Only the speeds of attention with a mask are fitted (`masked.py`, `tools/fit_tuning.py`).
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec

from gpuwise.evidence.masked import MaskedRates, masked
from gpuwise.workload.capture.request import Request
from gpuwise.workload.language.find import find_shape
from gpuwise.workload.language.shape import LanguageShape
from gpuwise.workload.model.edit import Draft
from gpuwise.workload.model.types import Call, Op, Settings, Workload
from gpuwise.workload.store import zoo
from gpuwise.workload.transform.checkpoint import blocks_of, checkpointed
from gpuwise.workload.transform.lora import Adapters, adapted

__all__ = ["Practice", "Tuned", "fitted_rates", "request_of", "tuned_row", "tuned_workload"]

_METHOD = re.compile(r"\s*(full|q-?lora|lora)(?:-parameter)?\s*(.*)", re.IGNORECASE)
_PASSES = re.compile(r"one it = (\d{1,4}) micro-batches")
_RANK = re.compile(r"\br(?:ank)?\s*=?\s*(\d{1,4})\b", re.IGNORECASE)
_USUAL_RANK = 16
_LOSSES = ("_log_softmax", "nll_loss")
_SAME_SHAPES = {"llama318b": "llama-3-8b", "llama38b": "llama-3-8b"}  # zoo models under other names


class Practice(msgspec.Struct, frozen=True):
    """How a source fine-tunes. `prepared`: the QLoRA base went through PEFT's `prepare_model_for_kbit_training`, so everything
    except the packed products is in fp32; `packed_in` is the type of those products, by GPU. `reentrant`: recomputed blocks run
    to their end. `masked`: attention gets a mask, which only the memory-efficient kernel accepts (inferred: no other kernel
    matches its times). `own_loss`: the loss is computed on logits in their own type, after a copy of all but the last position.
    `counter` is the counter behind its memory figures, and `why` gives the reasons for unusual choices.
    """

    source: str = ""
    rank: int = _USUAL_RANK
    targets: Mapping[str, str] = {}
    dropout: bool = False
    adapters_in: str = ""
    checkpoint: bool = False
    reentrant: bool = False
    prepared: bool = False
    packed_in: Mapping[str, str] = {}
    masked: bool = False
    own_loss: bool = False
    counter: str = ""
    why: Mapping[str, str] = {}


class _Packed(msgspec.Struct, frozen=True):
    """`unpacked_bytes` per weight are written by the passes that unpack it, if no single kernel does so: for GPTQ, PyTorch shifts
    to int32 (4), narrows (1), masks (1), gathers scales (2) and zeros (1), and subtracts (1).
    """

    weight_bytes: float
    unpacked_bytes: float = 0.0


class _File(msgspec.Struct, frozen=True):
    practices: dict[str, Practice]
    packed: dict[str, _Packed]
    fitted: MaskedRates


@cache
def _file() -> _File:
    return msgspec.json.decode((files("gpuwise.evidence") / "data" / "tuning.json").read_bytes(), type=_File)


def fitted_rates() -> MaskedRates:
    """Return the speeds of attention with a mask."""
    return _file().fitted


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """A parsed row. A step has `passes` micro-batches. `packed` is the format of the base weights (empty for 16 bits), and
    `packed_in` is the type of their products if it differs from the step's. `small` and `reached` describe the GPU for `masked`.
    """

    method: str
    rank: int
    targets: str
    packed: str
    packed_in: str
    passes: int
    small: bool = False
    reached: float = 1.0
    practice: Practice = field(hash=False)


def tuned_row(cells: Mapping[str, str]) -> Tuned | str | None:
    """Return a fine-tuning row, the reason why it cannot be predicted, or None if it is not such a row."""
    said = f"{cells['stack']} {cells.get('note', '')}"
    found = _METHOD.fullmatch(cells["stack"].partition(";")[0])
    if cells["mode"] != "train" or found is None:
        return None
    method, rest = found[1].lower().replace("-", ""), found[2]
    if rest or cells["gpu_count"] not in ("", "1"):
        return "several GPUs, or more than adapters, in a way that the row does not fully describe"
    packed = cells["quantisation"].partition(" ")[0].lower()
    if packed and packed not in _file().packed:
        return f"adapters on weights in {cells['quantisation']} are not predicted"
    practice = _file().practices.get(cells["source"], Practice(checkpoint="checkpointing" in said))
    rank, passes = _RANK.search(said), _PASSES.search(said)
    type_of = practice.packed_in
    family = next((key for key in practice.targets if cells["model"].lower().startswith(key)), "")
    return Tuned(
        method=method,
        rank=int(rank[1]) if rank else practice.rank,
        targets=practice.targets.get(family, "all"),
        packed=packed or ("nf4" if method == "qlora" else ""),
        packed_in=type_of.get(cells["gpu"], type_of.get("", "")) if practice.prepared else "",
        passes=int(passes[1]) if passes else 1,
        practice=practice,
    )


# ---------------------------------------------------------------- the step


def request_of(cells: Mapping[str, str], row: Tuned) -> Request:
    """Return the plain step from which the row's step is made: from the zoo, or a decoder like Llama with the sizes of the row's
    model.
    """
    prepared = row.practice.prepared and row.packed
    settings = Settings(precision="fp32" if prepared else "bf16", optimizer="adamw" if row.method == "full" else "none")
    key = re.sub(r"[^a-z0-9]", "", cells["model"].lower())
    name = _SAME_SHAPES.get(key, cells["model"])
    if zoo.has(name):
        return Request(model=zoo.entry(name).name, settings=settings)
    return Request(model=_config(find_shape(name)), batch=2, seq=512, settings=settings)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="gpuwise-shapes-")


def _config(shape: LanguageShape) -> str:
    """Return a Llama configuration with these sizes, as a file that can be captured."""
    path = Path(_folder().name) / re.sub(r"\W+", "-", shape.name) / "config.json"
    path.parent.mkdir(exist_ok=True)
    sizes = {
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "intermediate_size": shape.intermediate,
        "vocab_size": shape.vocabulary,
        "tie_word_embeddings": shape.tied,
        "max_position_embeddings": max(shape.context, 2**17),
    }
    kind = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "dtype": "bfloat16"}
    path.write_text(json.dumps(kind | sizes), encoding="utf-8")
    return str(path)


def tuned_workload(plain: Workload, row: Tuned, rates: MaskedRates | None = None) -> Workload:
    """Build the step of a row from the plain one; `rates` replace the fitted ones."""
    practice, packed = row.practice, _file().packed.get(row.packed)
    found = plain
    if row.method != "full":
        how = Adapters(
            rank=row.rank,
            targets=row.targets,
            dtype=practice.adapters_in,
            dropout=practice.dropout,
            weight_bytes=packed.weight_bytes if packed else None,
            unpacked_bytes=packed.unpacked_bytes if packed else 0.0,
            computed_in=row.packed_in if packed and row.packed_in != "fp32" else "",
        )
        found = adapted(found, how)
    if practice.checkpoint:
        found = checkpointed(found, blocks_of(found), whole=practice.reentrant)
    if practice.own_loss:
        found = _on_a_copy(found) if found.precision == "fp32" else _in_own_type(found)
    return masked(found, rates or fitted_rates(), small=row.small, reached=row.reached) if practice.masked else found


def _in_own_type(workload: Workload) -> Workload:
    """The loss on logits in 16 bits; the cast before it becomes the copy of all but the last position."""
    rows = {call.op for call in workload.calls if workload.ops[call.op].name.startswith(_LOSSES)}
    wide = {tensor for row in rows for tensor in (*workload.ops[row].reads, *workload.ops[row].writes)}
    sizes = {
        workload.tensors[tensor].elements for tensor in wide if len(workload.products[workload.tensors[tensor].elements]) > 1
    }
    low = [
        replace(tensor, dtype=workload.precision) if tensor.dtype == "fp32" and tensor.elements in sizes else tensor
        for tensor in workload.tensors
    ]
    ops = [replace(op, dtype=workload.precision) if number in rows else op for number, op in enumerate(workload.ops)]
    return replace(workload, tensors=tuple(low), ops=tuple(ops))


def _on_a_copy(workload: Workload) -> Workload:
    """The loss on a copy of the logits, which are kept."""
    draft = Draft(workload)
    for number, call in enumerate(workload.calls):
        if workload.ops[call.op].name == "_log_softmax":
            logits = call.reads[0]
            tensor = workload.buffers[logits].tensor
            copy = draft.buffer(tensor, "temporary")
            spec = workload.tensors[tensor]
            op = draft.op(Op("copy", "clone", spec.dtype, (spec.elements,), {}, (tensor,), (tensor,)))
            draft.before(number, Call(op, call.phase, call.module, (logits,), (copy,)))
            draft.calls[number] = Call(call.op, call.phase, call.module, (copy, *call.reads[1:]), call.writes)
    return draft.done()
