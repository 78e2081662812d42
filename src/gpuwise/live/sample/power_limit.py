"""Sets the power limit of an NVIDIA card through NVML, and restores it whatever happens.

A separate process (`run`) sets limits on request and restores the original one when its input ends: after the work, after Ctrl-C,
and after a crash or kill of the parent process. It ignores signals from the terminal.
"""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar, cast

from gpuwise.core.errors import BadValue, GpuwiseError, MissingExtra

__all__ = ["Card", "Keeper", "card_of", "held", "run", "used_joules"]

_PATIENCE_S = 10.0
_HANGS = f"the driver has not responded for {_PATIENCE_S:g} s"
Answer = TypeVar("Answer")


class Card(NamedTuple):
    """A card as its driver knows it, with its limits in milliwatts."""

    uuid: str
    name: str
    now: int
    least: int
    most: int
    default: int


def _nvml() -> Any:
    try:
        import pynvml
    except ImportError:
        raise MissingExtra("nvidia-ml-py", extra="nvidia", needed_for="setting a power limit") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as fault:
        raise GpuwiseError(f"no NVIDIA driver responded ({fault})", hint="set power limits on NVIDIA cards only") from None
    return pynvml


def _handle(nvml: Any, uuid: str) -> Any:
    return nvml.nvmlDeviceGetHandleByUUID(uuid) if uuid else nvml.nvmlDeviceGetHandleByIndex(0)


def card_of(uuid: str) -> Card:
    """Return the card with this UUID (the first card if it is unknown) and the limits that it accepts."""
    nvml = _nvml()
    try:
        handle = _handle(nvml, uuid)
        least, most = nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)
        name = nvml.nvmlDeviceGetName(handle)
        return Card(
            uuid=uuid,
            name=name.decode("utf-8", "replace") if isinstance(name, bytes) else name,
            now=nvml.nvmlDeviceGetPowerManagementLimit(handle),
            least=least,
            most=most,
            default=nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle),
        )
    except nvml.NVMLError as fault:
        raise GpuwiseError(
            f"the power limit of this card cannot be changed ({fault})",
            hint="leave the limit unchanged, because laptops and some boards have a fixed limit",
        ) from None
    finally:
        nvml.nvmlShutdown()


def used_joules(uuid: str) -> float | None:
    """Return the energy that the card has used since its driver was loaded; None before Volta, or if the driver cannot be
    queried.
    """
    try:
        nvml = _nvml()
    except GpuwiseError:
        return None
    try:
        return float(nvml.nvmlDeviceGetTotalEnergyConsumption(_handle(nvml, uuid))) * 1e-3
    except nvml.NVMLError:
        return None
    finally:
        nvml.nvmlShutdown()


class Keeper:
    """Talks to the process that holds the limit."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def set(self, milliwatts: int) -> None:
        """Set a limit, and return when the driver has accepted it."""
        try:
            assert self._process.stdin is not None  # noqa: S101
            assert self._process.stdout is not None  # noqa: S101
            self._process.stdin.write(f"{milliwatts}\n")
            self._process.stdin.flush()
            said = _in_time(self._process.stdout.readline).strip()
        except OSError as fault:
            said = str(fault)
        except _Late:
            said = _HANGS
        if said != "set":
            rights = "permission" in said.lower()
            raise BadValue(
                f"the power limit could not be set to {milliwatts / 1000:g} W: {said or 'no response'}",
                hint="use sudo with the same Python, because this needs administrator rights"
                if rights
                else "check the allowed limits with `nvidia-smi -q -d POWER`",
            )


@contextmanager
def held(card: Card) -> Iterator[Keeper]:
    """While entered, limits can be set; the previous limit is restored on exit, and also if this process dies."""
    from gpuwise.live.tune.contained import in_python

    process = subprocess.Popen(  # noqa: S603 - our own module
        in_python(__name__, card.uuid, str(card.now)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield Keeper(process)
    finally:
        with suppress(OSError, subprocess.TimeoutExpired):
            if process.stdin is not None:
                process.stdin.close()  # the process restores the limit when its input ends
            process.wait(timeout=_PATIENCE_S)
            if process.stdout is not None:
                process.stdout.close()
        _check_restored(card)


def _check_restored(card: Card) -> None:
    hint = f"restore it with `sudo nvidia-smi -i {card.uuid or 0} -pl {card.now / 1000:g}`"
    try:
        now = _in_time(lambda: card_of(card.uuid)).now
    except _Late:
        raise GpuwiseError(f"the power limit may not have been restored to {card.now / 1000:g} W: {_HANGS}", hint=hint) from None
    if now != card.now:
        raise GpuwiseError(f"the power limit is {now / 1000:g} W and could not be restored to {card.now / 1000:g} W", hint=hint)


class _Late(Exception):
    """There was no response in time."""


def _in_time(ask: Callable[[], Answer]) -> Answer:
    """Return the answer from a thread that may be abandoned: a driver that hangs cannot be interrupted."""
    answers: queue.Queue[tuple[Answer | None, Exception | None]] = queue.Queue()

    def run() -> None:
        try:
            answers.put((ask(), None))
        except Exception as fault:  # reported to the caller
            answers.put((None, fault))

    threading.Thread(target=run, daemon=True).start()
    try:
        answer, fault = answers.get(timeout=_PATIENCE_S)
    except queue.Empty:
        raise _Late from None
    if fault is not None:
        raise fault
    return cast("Answer", answer)


def run(uuid: str, milliwatts: str) -> None:
    """Set limits from standard input, one per line, and restore this one when it ends."""
    for number in (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])):
        signal.signal(number, signal.SIG_IGN)
    nvml = _nvml()
    handle, changed = _handle(nvml, uuid), False
    try:
        for line in sys.stdin:
            try:
                nvml.nvmlDeviceSetPowerManagementLimit(handle, int(line))
                changed, said = True, "set"
            except nvml.NVMLError as fault:
                said = str(fault)
            with suppress(OSError):  # the parent process has ended, so the input will end next
                sys.stdout.write(f"{said}\n")
                sys.stdout.flush()
    finally:
        if changed:
            nvml.nvmlDeviceSetPowerManagementLimit(handle, int(milliwatts))
        nvml.nvmlShutdown()
