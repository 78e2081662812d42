"""Language and speech models from Hugging Face transformers, built from the hyper-parameters in gpuwise's own table,
and GPT-3.

A decoder with the same sizes as one listed here (an instruct, coder or distilled version) needs no row, because the zoo finds it
by its sizes.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuwise.workload.capture.huggingface import source as huggingface
from gpuwise.workload.capture.huggingface.configs import find_config
from gpuwise.workload.capture.huggingface.known import known_parameters
from gpuwise.workload.capture.request import Request
from gpuwise.workload.capture.torch.step import Subject
from gpuwise.workload.model.types import Settings
from zoo.model import Model, Wish

__all__ = ["models"]

_CACHED = ("prefill", "decode")
_CONTEXT = 2048  # positions in the prompt and in the cache, unless the training sequence is shorter

# name, id, family, batch and sequence of a training step, title, aliases
_ENCODERS = """
bert-base-uncased   bert-base-uncased        bert     32  128 BERT-base      bert bert-base bert-base-cased
bert-large-uncased  bert-large-uncased       bert     16  128 BERT-large     bert-large bert-large-cased
bert-base-squad     csarron/bert-base-uncased-squad-v1 bert 32 384 BERT-base-SQuAD bert-base-qa
bert-large-squad    bert-large-uncased-whole-word-masking-finetuned-squad bert 16 384 BERT-large-SQuAD bert-large-qa
roberta-base        roberta-base             roberta  32  512 RoBERTa-base   roberta
roberta-large       roberta-large            roberta  16  512 RoBERTa-large
distilbert-base     distilbert-base-uncased  bert     32  128 DistilBERT     distilbert distilbert-base-uncased
t5-small            t5-small                 t5       32  512 T5-small       t5
t5-base             t5-base                  t5       16  512 T5-base
t5-large            t5-large                 t5        8  512 T5-large
t5-3b               t5-3b                    t5        4  512 T5-3B          t5-xl
wav2vec2-base       facebook/wav2vec2-base   wav2vec2  8  500 wav2vec2-base  wav2vec2 wav2vec wav2vec2.0
wav2vec2-large      facebook/wav2vec2-large  wav2vec2  8  500 wav2vec2-large
"""
_GENERATORS = """
gpt2           gpt2                             gpt2     8 1024 GPT-2-small    gpt2-small
gpt2-medium    gpt2-medium                      gpt2     8 1024 GPT-2-medium   gpt2-m
gpt2-large     gpt2-large                       gpt2     4 1024 GPT-2-large    gpt2-l
gpt2-xl        gpt2-xl                          gpt2     4 1024 GPT-2-XL
opt-1.3b       facebook/opt-1.3b                opt      4 2048 OPT-1.3B
opt-2.7b       facebook/opt-2.7b                opt      2 2048 OPT-2.7B
opt-6.7b       facebook/opt-6.7b                opt      1 2048 OPT-6.7B
opt-13b        facebook/opt-13b                 opt      1 2048 OPT-13B
opt-30b        facebook/opt-30b                 opt      1 2048 OPT-30B
opt-66b        facebook/opt-66b                 opt      1 2048 OPT-66B
llama-2-7b     meta-llama/Llama-2-7b-hf         llama    1 4096 Llama-2-7B     llama llama2 llama-7b llama-2-7b-hf codellama-7b
llama-2-13b    meta-llama/Llama-2-13b-hf        llama    1 4096 Llama-2-13B    llama-13b llama-2-13b-hf
llama-2-70b    meta-llama/Llama-2-70b-hf        llama    1 4096 Llama-2-70B    llama-70b llama-2-70b-hf
llama-3-8b     meta-llama/Meta-Llama-3-8B       llama    1 4096 Llama-3-8B     llama3 llama-8b llama-3.1-8b meta-llama-3-8b
llama-3-70b    meta-llama/Meta-Llama-3-70B      llama    1 4096 Llama-3-70B    llama-3.1-70b llama-3.3-70b meta-llama-3-70b
llama-3.2-1b   meta-llama/Llama-3.2-1B          llama    2 4096 Llama-3.2-1B   llama-1b llama-3-1b
llama-3.2-3b   meta-llama/Llama-3.2-3B          llama    1 4096 Llama-3.2-3B   llama-3b llama-3-3b
tinyllama-1.1b TinyLlama/TinyLlama-1.1B-Chat-v1.0 llama  4 2048 TinyLlama-1.1B tinyllama tiny-llama
mistral-7b     mistralai/Mistral-7B-v0.1        mistral  1 4096 Mistral-7B     mistral mistral-7b-v0.1
mixtral-8x7b   mistralai/Mixtral-8x7B-v0.1      mixtral  1 4096 Mixtral-8x7B   mixtral mixtral-8x7b-v0.1
qwen2.5-0.5b   Qwen/Qwen2.5-0.5B                qwen     4 2048 Qwen2.5-0.5B   qwen-0.5b
qwen2.5-1.5b   Qwen/Qwen2.5-1.5B                qwen     2 2048 Qwen2.5-1.5B   qwen-1.5b
qwen2.5-3b     Qwen/Qwen2.5-3B                  qwen     1 2048 Qwen2.5-3B     qwen-3b
qwen2.5-7b     Qwen/Qwen2.5-7B                  qwen     1 2048 Qwen2.5-7B     qwen qwen2.5 qwen-7b
qwen2.5-14b    Qwen/Qwen2.5-14B                 qwen     1 2048 Qwen2.5-14B    qwen-14b
qwen2.5-32b    Qwen/Qwen2.5-32B                 qwen     1 2048 Qwen2.5-32B    qwen-32b
qwen2.5-72b    Qwen/Qwen2.5-72B                 qwen     1 2048 Qwen2.5-72B    qwen-72b
qwen3-0.6b     Qwen/Qwen3-0.6B                  qwen     4 2048 Qwen3-0.6B
qwen3-1.7b     Qwen/Qwen3-1.7B                  qwen     2 2048 Qwen3-1.7B
qwen3-4b       Qwen/Qwen3-4B                    qwen     1 2048 Qwen3-4B
qwen3-8b       Qwen/Qwen3-8B                    qwen     1 2048 Qwen3-8B
qwen3-14b      Qwen/Qwen3-14B                   qwen     1 2048 Qwen3-14B
qwen3-32b      Qwen/Qwen3-32B                   qwen     1 2048 Qwen3-32B
qwen3-30b-a3b  Qwen/Qwen3-30B-A3B               qwen     1 2048 Qwen3-30B-A3B
deepseek-r1-distill-qwen-1.5b deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B qwen 2 2048 DeepSeek-R1-Distill-Qwen-1.5B
gemma-2b       google/gemma-2b                  gemma    1 2048 Gemma-2B
gemma-7b       google/gemma-7b                  gemma    1 2048 Gemma-7B
gemma-2-2b     google/gemma-2-2b                gemma    1 2048 Gemma-2-2B
gemma-2-9b     google/gemma-2-9b                gemma    1 2048 Gemma-2-9B
gemma-2-27b    google/gemma-2-27b               gemma    1 2048 Gemma-2-27B
gemma-3-270m   google/gemma-3-270m              gemma    8 2048 Gemma-3-270M
gemma-3-1b     google/gemma-3-1b-it             gemma    4 2048 Gemma-3-1B
gemma-3-4b     google/gemma-3-4b-it             gemma    1 2048 Gemma-3-4B
gemma-3-12b    google/gemma-3-12b-it            gemma    1 2048 Gemma-3-12B
gemma-3-27b    google/gemma-3-27b-it            gemma    1 2048 Gemma-3-27B
phi-3-mini     microsoft/Phi-3.5-mini-instruct  phi      1 2048 Phi-3-mini     phi-3.5-mini
phi-3-medium   microsoft/Phi-3-medium-4k-instruct phi    1 1024 Phi-3-medium
phi-4          microsoft/phi-4                  phi      1 2048 Phi-4
phi-4-mini     microsoft/Phi-4-mini-instruct    phi      1 2048 Phi-4-mini
mistral-7b-v0.3 mistralai/Mistral-7B-v0.3       mistral  1 4096 Mistral-7B-v0.3
mistral-nemo   mistralai/Mistral-Nemo-Instruct-2407 mistral 1 4096 Mistral-Nemo-12B
mistral-small-24b mistralai/Mistral-Small-24B-Instruct-2501 mistral 1 4096 Mistral-Small-24B
olmo-2-7b      allenai/OLMo-2-1124-7B           olmo     1 2048 OLMo-2-7B
olmo-2-13b     allenai/OLMo-2-1124-13B          olmo     1 2048 OLMo-2-13B
granite-3-2b   ibm-granite/granite-3.3-2b-instruct granite 1 4096 Granite-3-2B
granite-3-8b   ibm-granite/granite-3.3-8b-instruct granite 1 4096 Granite-3-8B
smollm2-135m   HuggingFaceTB/SmolLM2-135M       smollm   8 2048 SmolLM2-135M
smollm2-360m   HuggingFaceTB/SmolLM2-360M       smollm   4 2048 SmolLM2-360M
smollm2-1.7b   HuggingFaceTB/SmolLM2-1.7B       smollm   1 2048 SmolLM2-1.7B
smollm3-3b     HuggingFaceTB/SmolLM3-3B         smollm   1 2048 SmolLM3-3B
gpt-oss-20b    openai/gpt-oss-20b               gpt-oss  1 2048 gpt-oss-20B
"""
_SPEECH = """
whisper-tiny   openai/whisper-tiny              whisper 16  448 Whisper-tiny
whisper-base   openai/whisper-base              whisper 16  448 Whisper-base
whisper-small  openai/whisper-small             whisper  8  448 Whisper-small  whisper
whisper-medium openai/whisper-medium            whisper  4  448 Whisper-medium
whisper-large  openai/whisper-large-v3          whisper  2  448 Whisper-large  whisper-large-v3
whisper-turbo  openai/whisper-large-v3-turbo    whisper  2  448 Whisper-turbo  whisper-large-v3-turbo whisper-v3-turbo
distil-whisper distil-whisper/distil-large-v3   whisper  2  448 Distil-Whisper-large distil-large-v3 distil-whisper-large-v3
"""
# name, layers, width, heads, published parameters, title, aliases; the 13B with the width of 5120 that its 40 heads ask for, and
# an XL with the width of 3072 that the paper's 24 heads of 128 ask for (some benchmarks build it so)
_GPT3 = """
gpt3-small  12   768 12   125_000_000 GPT-3-125M  gpt3-125m
gpt3-xl     24  2048 16 1_300_000_000 GPT-3-1.3B  gpt3-1.3b
gpt3-xl-3072 24 3072 24 2_880_000_000 GPT-3-XL-3072
gpt3-2.7b   32  2560 32 2_700_000_000 GPT-3-2.7B
gpt3-6.7b   32  4096 32 6_700_000_000 GPT-3-6.7B
gpt3-13b    40  5120 40 13_000_000_000 GPT-3-13B
gpt3-175b   96 12288 96 175_000_000_000 GPT-3-175B gpt3 gpt-3
"""


def models() -> list[Model]:
    """Return all of them, each at its usual training length."""
    found = [_entry(line, ("",)) for line in _lines(_ENCODERS)]
    found += [_entry(line, _CACHED) for line in _lines(_GENERATORS)]
    found += [_entry(line, ("", *_CACHED)) for line in _lines(_SPEECH)]
    return found + [_gpt3(*line.split()) for line in _lines(_GPT3)]


def _lines(table: str) -> list[str]:
    return [line for line in table.splitlines() if line.strip()]


def _entry(line: str, phases: tuple[str, ...]) -> Model:
    name, model, family, batch, seq, title, *aliases = line.split()
    return Model(
        name=name,
        title=title,
        family=family,
        source=f"hf:{model}",
        subject=lambda wish: _subject(f"hf:{model}", wish, int(seq)),
        aliases=tuple(aliases),
        published=known_parameters()[model],
        optimizer="adamw",
        batch=int(batch),
        seq=int(seq),
        longest=_longest(model),
        phases=phases,
    )


def _longest(model: str) -> int | None:
    """Return the number of positions in the model's table. RoBERTa's first two are padding."""
    config = find_config(f"hf:{model}").config
    found = config.get("n_positions", config.get("max_position_embeddings"))
    if not found or config["model_type"] in ("t5", "whisper", "wav2vec2"):
        return None
    return int(found) - (2 if found == 514 else 0)


def _subject(model: str, wish: Wish, seq: int) -> Subject:
    settings = Settings(mode=wish.mode, precision=wish.precision)
    length = min(_CONTEXT, seq) if wish.phase else seq  # sliding windows are captured on the side where this length is
    found: Any = huggingface.subject(Request(model=model, phase=wish.phase, seq=length, settings=settings))
    return replace(found, batch=1) if wish.phase and found.seq is not None else found


def _gpt3(name: str, layers: str, width: str, heads: str, published: str, title: str, *aliases: str) -> Model:
    sizes = {"n_layer": int(layers), "n_embd": int(width), "n_head": int(heads), "n_positions": 2048, "vocab_size": 50257}
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], **sizes}

    def subject(wish: Wish) -> Subject:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "config.json"
            path.write_text(json.dumps(config), encoding="utf-8")
            found = _subject(str(path), wish, 2048)
        return replace(found, notes=tuple(note for note in found.notes if "config.json" not in note))

    return Model(
        name=name,
        title=title,
        family="gpt3",
        source="arXiv:2005.14165 table 2.1, built as GPT-2 with dense attention",
        subject=subject,
        aliases=aliases,
        published=int(published),
        tolerance=0.025,
        optimizer="adamw",
        batch=1 if int(published) > 5e9 else 4,
        seq=2048,
        longest=2048,
        phases=_CACHED,
    )
