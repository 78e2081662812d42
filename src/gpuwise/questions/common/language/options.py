"""The options of questions about language models that generate text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Optional

from gpuwise.questions.common.options import Option
from gpuwise.questions.common.step_options import StepOptions

__all__ = ["CacheType", "Context", "Engine", "LanguageOptions", "Output", "Prompt", "Users", "Weights"]

_MOST_TOKENS = 2**31 - 1
_FORMATS = "fp16, bf16, fp8, int8, int4, awq, gptq, nf4, mxfp4, nvfp4, q8_0, q6_k, q5_k_m, q4_k_m or q4_0"
_ENGINES = "vllm, sglang, tensorrt-llm, lmdeploy, llama.cpp, ollama, exllama, autoawq, mlc, mlx, transformers or compile"
_WEIGHTS = f"The format of a language model's weights for generation: {_FORMATS}; for image models, fp16, fp8, int8 or int4."
Weights = Annotated[str, Option(help=_WEIGHTS)]
CacheType = Annotated[str, Option(help="The type of the key-value cache: fp16, bf16, fp8, int8, q8_0 or q4_0.")]
Engine = Annotated[str, Option(help=f"The inference engine that generates the text: {_ENGINES}.")]
Users = Annotated[Optional[int], Option(help="The number of concurrent requests (default: 1).", low=1, high=100_000)]
Prompt = Annotated[Optional[int], Option(help="The number of tokens in each prompt (default: 512).", low=1, high=_MOST_TOKENS)]
Output = Annotated[Optional[int], Option(help="The number of tokens in each output (default: 256).", low=1, high=_MOST_TOKENS)]
Context = Annotated[
    Optional[int], Option(help="The total number of tokens in the prompt and the output.", low=2, high=_MOST_TOKENS)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageOptions(StepOptions):
    """A model on GPUs that may be asked to generate text."""

    weights: Weights = ""
    kv: CacheType = ""
    engine: Engine = ""
    users: Users = None
    prompt: Prompt = None
    output: Output = None
    context: Context = None

    @property
    def asks_for_text(self) -> bool:
        """Whether an option says that text is generated."""
        numbers = (self.users, self.prompt, self.output, self.context)
        return bool(self.weights or self.kv or self.engine) or any(number is not None for number in numbers)
