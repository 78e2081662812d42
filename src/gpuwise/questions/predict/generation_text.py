"""Text generation as text: tokens per second first, then the time to the first token, and memory."""

from __future__ import annotations

from gpuwise.core.units import format_si
from gpuwise.prediction.generation import usable_bytes
from gpuwise.questions.common.gpu_list import on_which, set_name
from gpuwise.questions.common.language.answer import LanguageAnswer, LanguagePrediction
from gpuwise.questions.predict.priced import PricedText
from gpuwise.render.text import Column, bold, folded, join_notes, table, wrapped
from gpuwise.step.time.engines import find_engine

__all__ = ["bytes_text", "head", "money", "rate", "render"]

_GIB = 2**30
_MEANING = {
    "compute": "the GPU's arithmetic throughput",
    "memory": "the GPU's memory bandwidth",
    "launch": "the time to start many small kernels, so a faster GPU would help little",
    "copy": "the part that runs on the CPU",
    "communication": "communication between GPUs",
}


def render(answer: LanguageAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """One sheet, or a table of GPUs."""
    results = [result for result in answer.results if isinstance(result, LanguagePrediction)]
    body = _sheet(answer, results[0], width, colour) if len(results) == 1 else _side_by_side(answer, results, width, colour)
    notes = [wrapped(f"note: {note}", width, "  ") for note in answer.notes]
    said = folded([note for result in results for note in result.assumptions], verbose=verbose)
    return body + join_notes([*notes, *(wrapped(line, width, "  ") for line in said)])


def _limit(result: LanguagePrediction) -> str:
    """What limits the speed; a CPU named in place of a GPU is called a CPU."""
    said = _MEANING[result.bound]
    return said.replace("the GPU's", "the CPU's") if result.gpu.is_cpu else said


def head(answer: LanguageAnswer, result: LanguagePrediction, colour: bool, *, with_users: bool = True) -> str:
    """The model and how it is asked to write."""
    told = result.generation
    users = "" if not with_users else ", 1 user" if told.users == 1 else f", {told.users:,} users"
    cache = "" if told.kv == "fp16" else f", {told.kv} cache"
    size = f"prompt {told.prompt:,}, output {told.output:,} tokens"
    return f"{bold(answer.model, colour=colour)}  {told.weights} in {told.engine}{cache}{users}, {size}"


def _sheet(answer: LanguageAnswer, result: LanguagePrediction, width: int | None, colour: bool) -> str:
    told = result.generation
    name = set_name(result.gpu, result.gpu_count)
    is_measured = result.range_basis == "measured"
    basis = "80% of measurements fall between" if is_measured else "assumed range:"
    ends = f"{rate(told.tokens_per_s_low)} {'and' if is_measured else 'to'} {rate(told.tokens_per_s_high)}"
    each = "" if told.users == 1 else f", {rate(told.tokens_per_s_per_user)} for each user"
    title = f"{head(answer, result, colour)} on {bold(name, colour=colour)}"
    memory = wrapped(f"  memory       {_memory(result)}", width, " " * 15)
    if not result.fits:
        speed = f"would be {rate(told.tokens_per_s)} tokens/s if the model fitted   ({basis} {ends})"
        return f"{title}\n\n{memory}\n{wrapped(f'  speed        {speed}', width, ' ' * 15)}"
    lines = [
        title,
        "",
        f"  speed        {rate(told.tokens_per_s)} tokens/s{each}   ({basis} {ends})",
        f"  first token  {format_si(told.time_to_first_token_s, 's')} after the request; prompts are read at "
        f"{rate(told.prompt_tokens_per_s)} tokens/s",
        f"  full output  {format_si(told.request_s, 's')} for {told.output:,} tokens",
        f"  limited by   {_limit(result)}",
        memory,
        f"  room for     {_users(told.users_fit)} of {told.prompt + told.output:,} tokens at the same time",
        *(wrapped(line, width, " " * 15) for line in _cost(answer, result)),
    ]
    return "\n".join(lines)


def _cost(answer: LanguageAnswer, result: LanguagePrediction) -> list[str]:
    rents = answer.rents if isinstance(answer, PricedText) else ()
    return [
        f"  cost         {money(rent.price.whole_usd_per_million)} per million output tokens, prompts included, at a rental "
        f"price of ${rent.usd_per_gpu_hour:.2f} per {'GPU-' if result.gpu_count > 1 else ''}hour "
        f"({rent.cloud}, {rent.dated})"
        for rent in rents
        if rent.gpu == result.gpu.name
    ]


def money(usd: float) -> str:
    """Dollars for tokens, which may be fractions of a cent."""
    return f"${usd:,.2f}" if usd >= 0.1 else f"${usd:.2g}"


def _users(count: int) -> str:
    return "no request" if not count else "1 request" if count == 1 else f"{count:,} requests"


def _memory(result: LanguagePrediction) -> str:
    memory = result.memory
    has = usable_bytes(find_engine(result.generation.engine), result.gpu)
    parts = [
        ("weights", memory.weight_bytes),
        ("key-value cache", memory.kv_cache_bytes),
        ("activations", memory.activation_bytes - memory.kv_cache_bytes),
        ("engine", memory.framework_bytes),
    ]
    held = ", ".join(f"{name} {bytes_text(value)}" for name, value in parts)
    each = on_which(result.gpu, result.gpu_count)
    verdict = "fits" if result.fits else "DOES NOT FIT"
    if result.generation.offloaded_fraction:
        verdict = f"runs with {bytes_text(result.generation.host_bytes)} of weights in system memory"
    return f"{bytes_text(memory.total_bytes)} of {bytes_text(has)}{each}: {verdict} ({held})"


def _side_by_side(answer: LanguageAnswer, results: list[LanguagePrediction], width: int | None, colour: bool) -> str:
    columns = [
        Column(title="GPU", cells=[_name(result) for result in results], right=False),
        Column(title="tokens/s", cells=[_cell(one, rate(one.generation.tokens_per_s)) for one in results]),
        Column(
            title="range",
            cells=[
                _cell(one, f"{rate(one.generation.tokens_per_s_low)}–{rate(one.generation.tokens_per_s_high)}") for one in results
            ],
        ),
        Column(title="first token", cells=[_cell(one, format_si(one.generation.time_to_first_token_s, "s")) for one in results]),
        Column(title="memory", cells=[bytes_text(result.memory.total_bytes) for result in results]),
        Column(title="fits", cells=[_fits(result) for result in results], right=False),
        Column(title="requests that fit", cells=[f"{result.generation.users_fit:,}" for result in results]),
    ]
    return f"{head(answer, results[0], colour)}\n\n{table(columns, width=width, colour=colour)}"


def _cell(result: LanguagePrediction, text: str) -> str:
    """A speed, or a dash where the model does not fit."""
    return text if result.fits else "-"


def _name(result: LanguagePrediction) -> str:
    return set_name(result.gpu, result.gpu_count)


def _fits(result: LanguagePrediction) -> str:
    if result.generation.offloaded_fraction:
        return f"with {result.generation.offloaded_fraction:.0%} on the CPU"
    return "yes" if result.fits else "NO"


def rate(value: float) -> str:
    """Tokens per second: 1,234 or 12.3."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def bytes_text(value: float) -> str:
    """GiB, or MiB where they are few."""
    return f"{value / _GIB:.1f} GiB" if value >= 0.1 * _GIB else f"{value / 2**20:.0f} MiB"
