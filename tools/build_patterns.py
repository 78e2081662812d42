"""Captures the patterns for `evidence/language.py`: small language models in which every dimension has a unique value.

    python tools/build_patterns.py

Needs torch and transformers. Writes `src/gpuwise/scale/data/pattern_*.json.gz`.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import gpuwise
from gpuwise import scale
from gpuwise.workload.store.files import encode

DATA = Path(scale.__file__).parent / "data"
_COMMON: dict[str, Any] = {"num_hidden_layers": 3, "vocab_size": 50021, "dtype": "bfloat16"}
_GATED: dict[str, Any] = {
    **_COMMON,
    "hidden_size": 1536,
    "num_attention_heads": 24,
    "num_key_value_heads": 6,
    "head_dim": 80,
    "intermediate_size": 4160,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}
_GPT: dict[str, Any] = {"model_type": "gpt2", **_COMMON, "n_embd": 768, "n_layer": 3, "n_head": 12, "n_positions": 1000}
PATTERNS: dict[str, dict[str, Any]] = {
    "gpt": _GPT,
    "gpt_plain": {**_GPT, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0},
    "llama": {"model_type": "llama", **_GATED},
    "experts": {"model_type": "mixtral", **_GATED, "num_local_experts": 10, "num_experts_per_tok": 3, "sliding_window": None},
}
_CLASSES = {
    "gpt": "GPT2LMHeadModel",
    "gpt_plain": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "experts": "MixtralForCausalLM",
}


def main() -> int:
    """Capture each pattern and print its size."""
    with tempfile.TemporaryDirectory() as folder:
        for name, config in PATTERNS.items():
            path = Path(folder) / "config.json"
            path.write_text(json.dumps({**config, "architectures": [_CLASSES[name]]}))
            found = gpuwise.capture(str(path), mode="train", precision="bf16", optimizer="adamw", batch=2, seq=512)
            workload = found.workload
            content = gzip.compress(encode(replace(workload, model=f"{name} pattern", source="pattern", notes=())), mtime=0)
            (DATA / f"pattern_{name}.json.gz").write_bytes(content)
            print(f"{name}: {len(workload.calls)} calls, {len(content):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
