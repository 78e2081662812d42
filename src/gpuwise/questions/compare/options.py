"""The options of `compare`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from gpuwise.questions.common.language.options import CacheType, Context, Engine, Output, Prompt, Users, Weights
from gpuwise.questions.common.options import Batch, Cpu, CurrencyRate, Method, Names, Option, PriceFile, Prices, Seq, Stack

__all__ = ["CompareOptions"]

_NAMES = "Two or more GPUs or sets, such as 'RTX 3090', '4x RTX 2070' or 'RTX 3090 + T4'; the first is the baseline."


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """Compare the speed of GPUs on common jobs or on your model, explain the difference, and show what would change it."""

    names: Annotated[Names, Option(help=_NAMES, argument=True, metavar="GPU GPU...", least=1, most=8)] = field(kw_only=False)
    model: Annotated[Names, Option(help="Compare the GPUs on this model instead of the common jobs; may be repeated.")] = ()
    mode: Annotated[
        str, Option(help="The mode for --model: train or infer (by default, language models generate text and others train).")
    ] = ""
    precision: Annotated[str, Option(help="The precision for --model (default: the best for each GPU).")] = ""
    method: Method = ""
    batch: Batch = None
    seq: Seq = None
    weights: Weights = ""
    kv: CacheType = ""
    engine: Engine = ""
    users: Users = None
    prompt: Prompt = None
    output: Output = None
    context: Context = None
    stack: Stack = ""
    cpu: Cpu = ""
    price: Prices = ()
    prices: PriceFile = None
    currency: CurrencyRate = ""
