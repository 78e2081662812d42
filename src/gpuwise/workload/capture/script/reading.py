"""Observes what the user's code reads during a capture: its own modules, data and settings, but not installed packages.

Python reports every file that it opens and every folder that it lists (`sys.addaudithook`). Files are inspected when they are
opened, so that a file which changes later does not count as read.
"""

from __future__ import annotations

import os
import re
import site
import sys
import sysconfig
from collections.abc import Callable
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any

from gpuwise.workload.store.own_code import RestsOn, state_of, version_of

__all__ = ["watch_reading"]

_OWN = str(Path(__file__).parents[3])
_PATHS = sysconfig.get_paths()
_INSTALLED = tuple(
    str(Path(path).resolve()) + os.sep
    for path in {_OWN, *(_PATHS[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")), *site.getsitepackages()}
)
_SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/lib", "/usr/share/", "<", "\\\\.\\")
_ALWAYS = ("torch", "numpy")
_IMPORT = re.compile(r"^\s*(?:import|from)\s+(\w+)", re.MULTILINE)
_VARIABLE = re.compile(r"""(?:environ(?:\.get\(|\.pop\(|\.setdefault\(|\[)|getenv\()\s*["'](\w+)["']""")


def watch_reading() -> Callable[[], RestsOn]:
    """Start watching, and return a function that reports what has been read so far."""
    states: dict[str, str] = {}
    written: set[str] = set()
    is_busy = False

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal is_busy
        if is_busy or event not in ("open", "os.listdir", "os.scandir"):
            return
        is_busy = True  # inspecting a file opens it
        try:
            if event != "open" and sys._getframe(1).f_code.co_filename.startswith("<frozen importlib"):
                return  # imports search for modules; those found are opened
            _note(event, arguments, states, written)
        except Exception:  # a failing hook would break the user's code
            states["\0"] = "unknown"
        finally:
            is_busy = False

    sys.addaudithook(hook)
    variables = dict(os.environ)

    def told() -> RestsOn:
        nonlocal is_busy
        is_busy = True
        own = {name: state for name, state in states.items() if name not in written}
        for module in list(sys.modules.values()):
            name = getattr(module, "__file__", None)
            if isinstance(name, str) and _is_users(name):
                own.setdefault(str(Path(name).resolve()), state_of(name))
        texts = [_text_of(name) for name in own if name.endswith(".py") and own[name]]
        names = {name for text in texts for name in _IMPORT.findall(text)} | set(_ALWAYS)
        packages = {name: version_of(name) for name in names if version_of(name)}
        asked = {name for text in texts for name in _VARIABLE.findall(text)}
        return RestsOn(own, packages, {name: variables.get(name) for name in asked})

    return told


def _text_of(name: str) -> str:
    """The text of a source file, or an empty string if the code has deleted it since it was read."""
    try:
        return Path(name).read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def _note(event: str, arguments: tuple[Any, ...], states: dict[str, str], written: set[str]) -> None:
    name = arguments[0]
    if isinstance(name, int):
        return
    path = str(Path.cwd() / os.fsdecode(name if name is not None else "."))
    if not _is_users(path):
        return
    if event == "open" and _writes(arguments):
        if path not in states:
            written.add(path)
        return
    if f"{os.sep}__pycache__{os.sep}" in path:
        path = source_from_cache(path)
    if path not in states and path not in written:
        states[path] = state_of(path)


def _writes(arguments: tuple[Any, ...]) -> bool:
    mode, flags = (*arguments, None, None)[1:3]
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


def _is_users(name: str) -> bool:
    """Return whether this belongs neither to gpuwise, nor to an installed package, nor to the system."""
    if name.startswith(_SYSTEM) or "site-packages" in name or "dist-packages" in name:
        return False
    return not os.path.realpath(name).startswith(_INSTALLED)
