"""The requirements on a service: the numbers of users for a curve, and the waiting times that a user accepts."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwise.core.errors import BadValue
from gpuwise.core.units import parse
from gpuwise.questions.predict.options import PredictOptions

__all__ = [
    "MOST_POINTS",
    "MOST_USERS",
    "ServiceLevel",
    "asked_users",
    "asks_for_curve",
    "cached_fraction",
    "service_level",
    "users_of",
]

MOST_POINTS = 64
MOST_USERS = 100_000
_HINT = "try `--users 8`, `--users 1,8,32` or `--users 1..64`"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLevel:
    """The longest acceptable waits; None means any."""

    token_s: float | None = None
    first_token_s: float | None = None

    @property
    def is_set(self) -> bool:
        return self.token_s is not None or self.first_token_s is not None


def asks_for_curve(options: PredictOptions) -> bool:
    """Return whether the question goes beyond text for one number of users."""
    users = str(options.users or "")
    return "," in users or ".." in users or bool(options.sla or options.first_token) or options.prefix_cached is not None


def asked_users(options: PredictOptions) -> tuple[int, ...]:
    """`1,8,32` as given; `1..64` by doubling, including its end; none if none is given."""
    return users_of(options.users)


def users_of(given: int | str | None) -> tuple[int, ...]:
    """Return each number once, in ascending order.

    >>> users_of("1,8,32"), users_of("1..10"), users_of(4)
    ((1, 8, 32), (1, 2, 4, 8, 10), (4,))
    """
    if given is None or given == "":
        return ()
    found: set[int] = set()
    for part in str(given).split(","):
        first, dots, last = part.partition("..")
        low = _number(first)
        high = _number(last) if dots else low
        if low > high:
            raise BadValue(f"invalid number of users '{part.strip()}': the range ends before it begins", hint=_HINT)
        while low < high:
            found.add(low)
            low *= 2
        found.add(high)
    if len(found) > MOST_POINTS:
        raise BadValue(f"{len(found)} values are too many for `--users`", hint=f"give at most {MOST_POINTS}")
    return tuple(sorted(found))


def _number(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise BadValue(f"invalid number of users '{text.strip()[:40]}'", hint=_HINT) from None
    if not 1 <= value <= MOST_USERS:
        raise BadValue(f"invalid number of users {value:,}", hint=f"give a number between 1 and {MOST_USERS:,}")
    return value


def service_level(options: PredictOptions) -> ServiceLevel:
    """The waits that `--sla` and `--first-token` allow."""
    return ServiceLevel(token_s=_wait(options.sla, "--sla"), first_token_s=_wait(options.first_token, "--first-token"))


def _wait(text: str, option: str) -> float | None:
    if not text:
        return None
    seconds = parse(text, "time")
    if seconds <= 0:
        raise BadValue(f"invalid duration: {option} {text}", hint=f"try `{option} 50ms`")
    return seconds


def cached_fraction(options: PredictOptions) -> float | None:
    """Return the fraction of a prompt that is already cached, if given."""
    value = options.prefix_cached
    if value is not None and not 0 <= value <= 1:
        raise BadValue(
            f"invalid --prefix-cached {value:g}", hint="give a fraction between 0 and 1, such as `--prefix-cached 0.5`"
        )
    return value
