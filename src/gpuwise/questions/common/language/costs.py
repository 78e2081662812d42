"""The cost of tokens on GPUs with a given hourly cost: tokens read in prompts, and tokens written in answers.

A GPU that reads a prompt writes nothing meanwhile, so its hours are divided between the two: a prompt costs the time to read it,
and an answer its share of the steps that it shares with others.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuwise.money.prices import PriceBook, rent_median
from gpuwise.questions.common.language.answer import LanguagePrediction

__all__ = ["RentedTokens", "TokenPrice", "rented_tokens", "token_price"]

_MILLION = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrice:
    """Dollars for a million tokens read, and written; `whole_usd_per_million` is for a million written with their prompts."""

    usd_per_hour: float
    input_usd_per_million: float
    output_usd_per_million: float
    whole_usd_per_million: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RentedTokens:
    """Tokens on a rented GPU, from the cloud that is named or at the median of several."""

    gpu: str
    cloud: str
    usd_per_gpu_hour: float
    dated: str
    price: TokenPrice


def token_price(usd_per_hour: float, told: LanguagePrediction) -> TokenPrice:
    """With as many requests in flight all the time as the prediction has; dollars are for all of its GPUs."""
    asked = told.generation
    each_s = usd_per_hour / 3600.0
    read = _MILLION * each_s / asked.prompt_tokens_per_s
    written = _MILLION * each_s * told.step_s / asked.users
    return TokenPrice(
        usd_per_hour=usd_per_hour,
        input_usd_per_million=read,
        output_usd_per_million=written,
        whole_usd_per_million=written + read * asked.prompt / asked.output,
    )


def rented_tokens(told: LanguagePrediction, book: PriceBook) -> RentedTokens | None:
    """At the median rent, as everywhere, where one is known and the serving fits on the GPU alone."""
    offer = rent_median(told.gpu, book)
    if offer is None or not told.fits or told.generation.offloaded_fraction:
        return None
    return RentedTokens(
        gpu=told.gpu.name,
        cloud=offer.clouds[0] if len(offer.clouds) == 1 else f"median of {len(offer.clouds)} clouds",
        usd_per_gpu_hour=offer.usd_per_gpu_hour,
        dated=offer.dated.isoformat(),
        price=token_price(offer.usd_per_gpu_hour * told.gpu_count, told),
    )
