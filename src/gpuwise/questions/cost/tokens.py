"""The cost of a million tokens from a language model on the question's GPU, owned and rented."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuwise.core.errors import BadValue
from gpuwise.hardware.types import Gpu
from gpuwise.questions.cost.options import CostOptions

if TYPE_CHECKING:  # a model needs the whole machinery; money alone does not
    from gpuwise.questions.common.language.answer import LanguageAnswer, LanguagePrediction
    from gpuwise.questions.common.language.costs import TokenPrice

__all__ = ["TokenCosts", "TokenJob", "predict_tokens", "token_costs", "token_job"]

_EXAMPLE = "try `--model llama-3-8b --weights q4_k_m --users 10`"
_TEXT = ("weights", "kv", "engine", "users", "prompt", "output", "context")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenJob:
    """A language model that generates text, as it was asked for."""

    model: str
    precision: str
    weights: str
    kv: str
    engine: str
    users: int | None
    prompt: int | None
    output: int | None
    context: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCosts:
    """Tokens per second with a range, and the cost of a million of them: None if nothing is owned or rented, or if the model
    does not fit.
    """

    model: str
    told: LanguagePrediction
    rented_told: LanguagePrediction
    own: TokenPrice | None
    rent: TokenPrice | None

    def to_dict(self) -> dict[str, Any]:
        """As plain data, dollars for a million tokens."""
        from dataclasses import asdict

        asked = self.told.generation
        same = ("engine", "weights", "kv", "users", "prompt", "output", "tokens_per_s", "tokens_per_s_low", "tokens_per_s_high")
        return {
            "model": self.model,
            **{name: getattr(asked, name) for name in same},
            "rented_gpu": self.rented_told.gpu.name,
            "rented_tokens_per_s": self.rented_told.generation.tokens_per_s,
            "own": None if self.own is None else asdict(self.own),
            "rent": None if self.rent is None else asdict(self.rent),
        }


def token_job(options: CostOptions) -> TokenJob | None:
    """Return the job if text is requested: by an option for it, or by a language model without the size of a training job."""
    given = [name for name in _TEXT if getattr(options, name) not in (None, "")]
    trained = [name for name in ("job_hours", "samples", "epochs", "batch") if getattr(options, name) not in (None, "")]
    if not options.model:
        if given:
            raise BadValue(f"--{given[0]} requires --model", hint=_EXAMPLE)
        return None
    if given and trained:
        raise BadValue(
            f"--{given[0]} is for generating text, but --{trained[0].replace('_', '-')} is for training",
            hint="leave out one of them",
        )
    if trained or not (given or _is_language_model(options.model)):
        return None
    from gpuwise.questions.common.language.bounds import check_text_bounds

    check_text_bounds(options)
    return TokenJob(model=options.model, precision=options.precision, **{name: getattr(options, name) for name in _TEXT})


def _is_language_model(model: str) -> bool:
    from gpuwise.questions.common.language.ask import generates_unasked

    return generates_unasked(model)


def predict_tokens(job: TokenJob, gpus: list[Gpu], gpu_count: int) -> LanguageAnswer:
    """The model on each of these GPUs, or on this many of each."""
    from gpuwise.questions.common.language.answer import predict_text
    from gpuwise.questions.common.language.ask import language_query

    return predict_text(language_query(job.model, job, gpus, gpu_count=gpu_count, precision=job.precision))


def token_costs(job: TokenJob, answer: LanguageAnswer, own_usd: float | None, rent_usd: float | None) -> TokenCosts:
    """Return the costs at this many dollars per hour for all GPUs; in the answer, the first is owned and the last rented."""
    from gpuwise.questions.common.language.answer import LanguagePrediction
    from gpuwise.questions.common.language.costs import token_price

    told = [result for result in answer.results if isinstance(result, LanguagePrediction)]
    return TokenCosts(
        model=job.model,
        told=told[0],
        rented_told=told[-1],
        own=None if own_usd is None or not told[0].fits else token_price(own_usd, told[0]),
        rent=None if rent_usd is None or not told[-1].fits else token_price(rent_usd, told[-1]),
    )
