"""What would let a server do more: partly cached prompts, prompts read in smaller chunks, speculative (drafted) tokens, a smaller
cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuwise.core.text import plural
from gpuwise.core.units import format_si
from gpuwise.hardware.types import Gpu
from gpuwise.prediction.generation import Generations, chunks_s, curve, most_users, unread_fraction, verified_s
from gpuwise.step.time.engines import refusal

__all__ = ["WhatIf", "what_ifs"]

_CACHED = 0.5  # of a prompt, if not given: instructions and earlier turns that requests share, assumed
_DRAFTED, _ACCEPTED = 4, 0.7  # tokens drafted at a time, and the chance that the next one of them is right, assumed
_DRAFT_COST = 0.05  # of a step for each drafted token, as a draft head of about one layer costs, assumed
_WORTH = 1.02  # times the tokens or of the wait: what gains less is not told
_CHUNK = 512  # tokens of a prompt read at a time, as servers are set up for short waits
_SMALL_CACHES = ("fp8", "q8_0", "int8")


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """One change: the gain in tokens per second at `users` users, the wait for the first token, the requests that fit."""

    gpu: str
    change: str
    users: int
    gain: float
    time_to_first_token_s: float
    users_fit: int
    basis: str
    said: str


def what_ifs(points: Sequence[Generations], gpu: Gpu, cached: float | None) -> list[WhatIf]:
    """Return the changes that gain something at the last of these points, all of which fit on this GPU."""
    last = points[-1]
    found = [_prefix_cached(last, gpu, cached), _chunked(last, gpu), _drafted(points, gpu), _smaller_cache(last, gpu)]
    return [one for one in found if one is not None]


def _at(users: int) -> str:
    return "at 1 user" if users == 1 else f"at {users:,} users"


def _times(gain: float) -> str:
    return f"throughput is {gain:.2f} times as high"


def _prefix_cached(point: Generations, gpu: Gpu, cached: float | None) -> WhatIf | None:
    serving = point.serving
    if cached is None and serving.engine.batching != "continuous":
        return None
    share = _CACHED if cached is None else cached
    new = replace(point, unread=unread_fraction(serving, [gpu], share))
    gain = float(new.tokens_per_s[0] / point.tokens_per_s[0])
    before, after = float(point.first_token_s[0]), float(new.first_token_s[0])
    if cached is None and gain < _WORTH and before < _WORTH * after:
        return None
    basis = "given" if cached is not None else "assumed"
    faster = f"{_times(gain)} and " if gain >= _WORTH else ""
    wait = f"the first token arrives after {format_si(after, 's')} instead of {format_si(before, 's')}"
    source = "" if cached is not None else " (assumed; set yours with `--prefix-cached 0.8`)"
    return WhatIf(
        gpu=gpu.name,
        change="prefix cache",
        users=serving.users,
        gain=gain,
        time_to_first_token_s=after,
        users_fit=most_users(serving, gpu),
        basis=basis,
        said=f"with {share:.0%} of each prompt cached, {faster}{wait} {_at(serving.users)}{source}",
    )


def _chunked(point: Generations, gpu: Gpu) -> WhatIf | None:
    """Smaller pieces of prompts between the steps of other users: shorter pauses, more passes."""
    serving = point.serving
    now = min(serving.prompt, serving.engine.chunk or serving.prompt)
    if serving.users < 2 or serving.engine.batching != "continuous" or now < 2 * _CHUNK:
        return None
    (before, count), (after, more) = (chunks_s(serving, [gpu], tokens) for tokens in (now, _CHUNK))
    waits = [float(seconds[0]) for seconds in (before, after)]
    new = replace(point, unread=point.unread * max(1.0, more * waits[1] / (count * waits[0])))
    gain = float(new.tokens_per_s[0] / point.tokens_per_s[0])
    first = float(new.first_token_s[0])
    pause = f"a new prompt makes the other users wait {format_si(waits[1], 's')} at a time instead of {format_si(waits[0], 's')}"
    return WhatIf(
        gpu=gpu.name,
        change="chunked prefill",
        users=serving.users,
        gain=gain,
        time_to_first_token_s=first,
        users_fit=most_users(serving, gpu),
        basis="predicted",
        said=f"with prompts read {_CHUNK} tokens at a time (chunked prefill), {pause}, and {_times(gain)} {_at(serving.users)}",
    )


def _drafted(points: Sequence[Generations], gpu: Gpu) -> WhatIf | None:
    """Speculative decoding: a step yields the accepted drafted tokens plus one, on average (1 - a^(k+1)) / (1 - a)."""
    ends = (points[0], points[-1])
    steps = verified_s(points[0].serving, [gpu], [end.serving.users for end in ends], _DRAFTED)[:, 0]
    tokens = (1.0 - _ACCEPTED ** (_DRAFTED + 1)) / (1.0 - _ACCEPTED)
    gains = []
    for end, step_s in zip(ends, steps.tolist(), strict=True):
        plain = float(end.decode_s[0])
        drafted = (step_s + _DRAFTED * _DRAFT_COST * plain) / tokens
        whole = float(end.token_s[0])
        gains.append(whole / (whole - plain + drafted))
    if max(gains) < _WORTH:
        return None
    first, last = (end.serving.users for end in ends)
    few = f"{_times(gains[0])} {_at(first)}"
    many = "" if first == last else f" and {gains[1]:.2f} times {_at(last)}"
    told = f"{_DRAFTED} drafted tokens, of which {_ACCEPTED:.0%} are accepted; drafting one takes {_DRAFT_COST:.0%} of a step"
    return WhatIf(
        gpu=gpu.name,
        change="speculative decoding",
        users=last,
        gain=gains[1],
        time_to_first_token_s=float(points[-1].first_token_s[0]),
        users_fit=most_users(points[-1].serving, gpu),
        basis="assumed",
        said=f"with speculative decoding, {few}{many} (assumes {told})",
    )


def _smaller_cache(point: Generations, gpu: Gpu) -> WhatIf | None:
    serving = point.serving
    kind = next((name for name in _SMALL_CACHES if name in serving.engine.caches), "")
    if not kind or serving.cache not in ("fp16", "bf16") or refusal(serving.engine, gpu, "", kind) is not None:
        return None
    smaller = replace(serving, cache=kind)
    (new,) = curve(smaller, [gpu], [serving.users])
    gain = float(new.tokens_per_s[0] / point.tokens_per_s[0])
    fit, fitted = most_users(smaller, gpu), most_users(serving, gpu)
    if gain < _WORTH and fit == fitted:
        return None
    faster = f"{_times(gain)} {_at(serving.users)}, and " if gain >= _WORTH else ""
    return WhatIf(
        gpu=gpu.name,
        change=f"{kind} cache",
        users=serving.users,
        gain=gain,
        time_to_first_token_s=float(new.first_token_s[0]),
        users_fit=fit,
        basis="predicted",
        said=f"with the key-value cache in {kind} (`--kv {kind}`), {faster}there is room for {plural(f'{fit:,}', 'request')} "
        f"instead of {fitted:,}",
    )
