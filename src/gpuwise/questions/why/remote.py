"""Remote traces: lists URLs and URL patterns (s3:// and whatever fsspec supports), and fetches files while they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpuwise.core.errors import BadFile, BadValue, MissingExtra

__all__ = ["at_hand", "is_url", "list_urls", "stamp"]


def is_url(text: str) -> bool:
    """Whether it is a remote path.

    >>> is_url("s3://bucket/*.json.gz"), is_url("traces/*.json")
    (True, False)
    """
    return "://" in text


def _system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingExtra("fsspec", extra="s3", needed_for=f"'{url}'") from None
    scheme = url.partition("://")[0]
    try:
        system, path = url_to_fs(url)
    except ImportError as missing:
        if scheme in ("s3", "s3a"):
            raise MissingExtra("s3fs", extra="s3", needed_for=f"'{url}'") from None
        raise BadValue(
            f"'{url}' cannot be reached: {missing}", hint=f"install the package that fsspec needs for {scheme}://"
        ) from None
    except ValueError as fault:
        raise BadValue(f"cannot read from '{url}': {fault}", hint="try `s3://bucket/runs/*.json.gz`") from None
    return system, str(path)


def list_urls(pattern: str) -> list[str]:
    """Return the files for a URL or URL pattern, in order of name."""
    system, path = _system(pattern)
    try:
        found = sorted(system.glob(path)) if any(mark in path for mark in "*?[") else [path] * bool(system.isfile(path))
        files = [one for one in found if not system.isdir(one)]
    except Exception as fault:  # each file system has its own errors
        raise BadFile(
            f"'{pattern}' cannot be listed: {_describe(fault)}", hint="check the address and your permissions"
        ) from None
    if not files:
        raise BadFile(f"no file matches '{pattern}'", hint="check the address, and put patterns in quotes")
    return [str(system.unstrip_protocol(one)) for one in files]


def stamp(file: str) -> str:
    """Return what changes with the content of a file: its size and time, or its version in the store."""
    if is_url(file):
        system, path = _system(file)
        return str(system.ukey(path))
    status = Path(file).stat()
    return f"{status.st_size} {status.st_mtime_ns}"


@contextmanager
def at_hand(files: Sequence[str]) -> Iterator[list[str]]:
    """Return the same files on this machine, under their own names; downloads are deleted afterwards."""
    with TemporaryDirectory(prefix="gpuwise-") as folder:
        found = []
        for number, file in enumerate(files):
            if is_url(file):
                system, path = _system(file)
                place = Path(folder) / str(number) / path.rstrip("/").rpartition("/")[2]
                place.parent.mkdir()
                try:
                    system.get_file(path, str(place))
                except Exception as fault:
                    raise BadFile(f"'{file}' cannot be fetched: {_describe(fault)}", hint="check your permissions") from None
                found.append(str(place))
            else:
                found.append(file)
        yield found


def _describe(fault: Exception) -> str:
    return f"{type(fault).__name__}: {fault}".split("\n")[0]
