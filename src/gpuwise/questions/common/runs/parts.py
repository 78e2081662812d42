"""Saves a long run part by part in a folder, together with its question, so that asking again resumes where it stopped.

    results.parquet.parts/question.json     the question, with the versions it depends on; at the end also the outcome
    results.parquet.parts/0000017.part      the seventeenth part, written atomically

Independent of what the parts contain.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from gpuwise.core.errors import BadFile, BadValue
from gpuwise.core.files import write_whole

__all__ = ["Parts", "alone"]

_QUESTION = "question.json"
_SHOWN = 60


class Parts:
    """The finished parts of one question."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, question: Mapping[str, Any], *, fresh: bool, out: Path | None) -> None:
        """Create the folder, or continue in it if it belongs to this very question. `fresh` drops its contents; otherwise an
        output of another origin, or parts of another question, are refused.
        """
        asked = _plain(question)
        known = None if fresh else self._known()
        if known is not None and known["question"] != asked and not known["finished"] and not self.kept():
            known = None  # nothing was done for it
        if known is not None and known["question"] != asked:
            raise BadValue(
                f"{self._folder} contains results from a different command: {_difference(known['question'], asked)}",
                hint="run the same command as before to continue, choose another `--out`, or discard the results with `--fresh`",
            )
        if known is None and out is not None and out.exists() and not fresh:
            raise BadFile(
                f"{out} already exists and was not written by this command",
                hint="choose another `--out`, or overwrite it with `--fresh`",
            )
        gone = known is not None and known["finished"] is not None and out is not None and not out.exists()
        if known is None or gone:
            self.empty()
            self._write(asked, None)
        for draft in self._folder.glob("*.new"):
            draft.unlink()

    @property
    def finished(self) -> dict[str, Any] | None:
        """Return the outcome, if the run was completed."""
        known = self._known()
        return known["finished"] if known else None

    def kept(self) -> frozenset[int]:
        """Return the parts that exist."""
        return frozenset(int(path.stem) for path in self._folder.glob("*.part") if path.stem.isdigit())

    def keep(self, number: int, data: bytes) -> None:
        """Keep one part."""
        write_whole(self._path(number), data)

    def read(self, count: int) -> Iterator[bytes]:
        """All parts in order."""
        for number in range(count):
            yield self._path(number).read_bytes()

    def finish(self, came_out: Mapping[str, Any]) -> None:
        """Record the outcome, and drop the parts."""
        known = self._known()
        self._write(known["question"] if known else {}, dict(came_out))
        for path in self._folder.glob("*.part"):
            path.unlink()

    def empty(self) -> None:
        """Delete everything, but only our own files, because the user chose the folder."""
        for pattern in ("*.part", "*.new", _QUESTION):
            for path in self._folder.glob(pattern):
                path.unlink()

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:07d}.part"

    def _known(self) -> dict[str, Any] | None:
        path = self._folder / _QUESTION
        try:
            found = msgspec.json.decode(path.read_bytes())
            return {"question": found["question"], "finished": found["finished"]}
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, KeyError, TypeError):
            raise BadFile(f"{path} cannot be read", hint="discard it with `--fresh`, or choose another `--out`") from None

    def _write(self, question: dict[str, Any], finished: dict[str, Any] | None) -> None:
        data = msgspec.json.encode({"question": question, "finished": finished})
        write_whole(self._folder / _QUESTION, msgspec.json.format(data, indent=1))


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Create the folder and lock it, so that no second run works in it. The lock ends with the process, however it ends; an
    empty folder is removed.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise BadFile(f"{folder} cannot be created: {fault.strerror}", hint="choose another `--out`") from None
    try:
        import fcntl
    except ImportError:  # Windows: two runs would do the same work, and write the same parts
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise BadFile(f"another run is using {folder}", hint="wait until it ends, stop it, or choose another `--out`") from None
    finally:
        with suppress(OSError):
            folder.rmdir()
        os.close(handle)


def _plain(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value as it reads back from the file."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(dict(question)))
    return found


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return "; ".join(f"{name.replace('_', ' ')} {_short(before.get(name))}, not {_short(now.get(name))}" for name in names)


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
