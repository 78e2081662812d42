"""Models on the Hugging Face Hub that were fine-tuned from a model in gpuwise's table, recognised by their names.

A fine-tuned model has the sizes of the model it was made from, and its publisher usually keeps that model's name:
`cardiffnlp/twitter-roberta-base-sentiment` is a `roberta-base`. Another head replaces the one of pre-training.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

from gpuwise.hardware.tables import parse_toml
from gpuwise.workload.capture.huggingface.known import known_row, table

__all__ = ["TYPES", "Relative", "relative_of"]

_KEPT = 1024
_LONGEST = 200
# Types whose names are kept by those who fine-tune them. Decoders are found by their sizes in `workload.language`.
TYPES = frozenset(
    "bert roberta xlm-roberta camembert distilbert albert electra mpnet deberta deberta-v2 bart t5 "
    "vit clip siglip segformer wav2vec2 hubert".split()
)
_REPLACED = ("ForMaskedLM",)  # heads of pre-training
_SENTENCES = re.compile(r"sentence|embed|simcse|^all-|multi-qa|\b(bge|gte|e5|paraphrase|msmarco)\b")
_HEADS = (  # the first that matches
    (re.compile(r"squad|\bqa\b|question"), "ForQuestionAnswering"),
    (re.compile(r"\bner\b|conll|\bpos\b|token-class"), "ForTokenClassification"),
    (
        re.compile(
            r"nli\b|\bsst-?2?\b|sentiment|emotion|classif|\bqqp\b|mrpc|\bcola\b|stsb|toxic|hate|irony|offensive|spam|imdb"
            r"|zero-?shot|rerank|cross-encoder|ms-?marco|yelp|finbert|detect"
        ),
        "ForSequenceClassification",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """A model of the table with the sizes of the one that was named, and the head of the latter; empty if it keeps its head."""

    row: str
    head: str
    why: str


@lru_cache(maxsize=_KEPT)
def relative_of(name: str) -> Relative | None:
    """Return the model from which this one was made, or None if its name does not say so."""
    whole = name[:_LONGEST].lower()
    publisher, _, own = whole.rpartition("/")
    bases = _bases()
    found = max((base for base in bases if _contains(own, base)), key=len, default=None)
    if found is None or (own == found and not publisher and found == bases[found].lower()):
        return None
    row = bases[found]
    head = _head_of(f"{publisher} {own}", row)
    why = f"the sizes are those of {row}, from which {name} was made, as its name says"
    if head == "ForSequenceClassification" and _SENTENCES.search(f"{publisher} {own}"):
        why += "; a small classifier stands for the pooling of sentence vectors"
    return Relative(row=row, head=head, why=why)


def _contains(own: str, base: str) -> bool:
    """Whether the name contains the other one between separators.

    >>> _contains("twitter-roberta-base-sentiment", "roberta-base"), _contains("distilroberta-base", "roberta-base")
    (True, False)
    """
    return re.search(rf"(?<![a-z0-9]){re.escape(base)}(?![a-z0-9])", own) is not None and not own.startswith("tiny-random")


def _head_of(said: str, row: str) -> str:
    heads = _table()[row].get("architectures")
    if not isinstance(heads, list) or not any(str(head).endswith(_REPLACED) for head in heads):
        return ""
    for pattern, head in _HEADS:
        if pattern.search(said):
            return head
    return "ForSequenceClassification" if _SENTENCES.search(said) else ""


@cache
def _table() -> Mapping[str, Mapping[str, object]]:
    return {name: full for name in table() if (full := known_row(name))["model_type"] in TYPES}


@cache
def _bases() -> Mapping[str, str]:
    """Return the names that a fine-tuned model may contain, in lower case and without their publisher."""
    others = parse_toml((files("gpuwise.workload") / "data" / "hub_names.toml").read_text(encoding="utf-8"))["names"]
    return {name.rpartition("/")[2].lower(): name for name in _table()} | {name.lower(): row for name, row in others.items()}
