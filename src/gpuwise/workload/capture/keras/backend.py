"""Imports Keras on the user's backend if it is installed, without allocating any weights.

Keras is only used to read the graph, so if the configured backend is missing, another one reads the same graph.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from gpuwise.core import files as outputs
from gpuwise.core.errors import BadValue, MissingExtra

__all__ = ["choose_backend", "configured_backend", "import_keras", "without_weights"]

_NEEDS = {"tensorflow": ("tensorflow",), "jax": ("jax", "jaxlib"), "torch": ("torch",), "numpy": ("numpy", "scipy")}
_FALLBACK = "torch"  # needed for a capture in any case


def configured_backend() -> str | None:
    """Return the backend the user set: KERAS_BACKEND, else keras.json; None if neither differs from Keras' default,
    tensorflow.
    """
    named = os.environ.get("KERAS_BACKEND")
    if named:
        return named
    home = Path(os.environ.get("KERAS_HOME") or outputs.home() / ".keras")
    try:
        found = json.loads((home / "keras.json").read_text(encoding="utf-8")).get("backend")
    except (OSError, ValueError, AttributeError):
        found = None
    return found if isinstance(found, str) and found not in ("", "tensorflow") else None  # Keras itself writes its default there


def choose_backend() -> str:
    """Make sure that `import keras` finds a backend. Call it before the first import. Returns a note or an empty text."""
    if "keras" in sys.modules:
        return ""
    os.environ.setdefault("KERAS_TORCH_DEVICE", "cpu")  # on the PyTorch backend, regardless of any real or apparent GPU
    wanted = configured_backend()
    backend = wanted or "tensorflow"
    if all(importlib.util.find_spec(module) is not None for module in _NEEDS.get(backend, (backend,))):
        return ""
    os.environ["KERAS_BACKEND"] = _FALLBACK
    if wanted is None:
        return ""
    return f"the Keras backend {wanted} is not installed, so the graph was read with {_FALLBACK}, which gives the same graph"


def import_keras() -> Any:
    """Import Keras 3 on an installed backend."""
    choose_backend()
    try:
        import keras
    except ImportError as fault:
        if importlib.util.find_spec("keras") is None:
            raise MissingExtra("keras", extra="keras", needed_for="capturing a Keras model") from None
        raise BadValue(
            f"Keras could not be imported with the {configured_backend()} backend: {fault}",
            hint="set the environment variable KERAS_BACKEND=torch",
        ) from None
    if int(keras.__version__.partition(".")[0]) < 3:
        raise BadValue(f"Keras {keras.__version__} is too old to be captured", hint='pip install "keras>=3"')
    return keras


@contextlib.contextmanager
def without_weights() -> Iterator[None]:
    """Inside, Keras layers determine the shapes of their weights but allocate none, and no weight file is fetched or read."""
    keras = import_keras()
    try:
        scope = keras.StatelessScope(initialize_variables=False)
    except TypeError:  # an older Keras allocates on leaving the scope, so entering it would gain nothing
        yield
        return
    waiting = _waiting()
    before = None if waiting is None else list(waiting)
    try:
        with scope, contextlib.ExitStack() as stack:
            for target, name, value in _replacements(keras):
                stack.enter_context(mock.patch.object(target, name, value))
            yield
    finally:  # otherwise the next scope that Keras opens would give all of them values after all
        waiting = _waiting()
        if waiting is not None:
            waiting[:] = before or []


def _waiting() -> list[Any] | None:
    """Return Keras' list of variables that still lack a value, or None if this version has none."""
    state = sys.modules.get("keras.src.backend.common.global_state")
    found = None if state is None else state.get_global_attribute("uninitialized_variables")
    return found if isinstance(found, list) else None


def _replacements(keras: Any) -> Iterator[tuple[Any, str, Any]]:
    yield keras.Variable, "__init__", _deferring(keras, keras.Variable.__init__)
    yield keras.Model, "load_weights", lambda model, *args, **kwargs: None
    files = sys.modules.get("keras.src.utils.file_utils")
    if files is not None:
        yield files, "get_file", _without_download(files.get_file)


def _deferring(keras: Any, plain: Callable[..., None]) -> Callable[..., None]:
    """Defer variables created from a value (an optimizer's step count), like those with an initializer."""

    def init(variable: Any, initializer: Any, shape: Any = None, dtype: Any = None, *rest: Any, **options: Any) -> None:
        if not callable(initializer) and not isinstance(initializer, str):
            value = keras.ops.convert_to_tensor(initializer, dtype=dtype)
            shape, dtype = tuple(value.shape), keras.backend.standardize_dtype(value.dtype)
            initializer = lambda *args, **kwargs: value  # noqa: E731
        plain(variable, initializer, shape, dtype, *rest, **options)

    return init


def _without_download(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Skip the download of an application's weights, which are not needed. Other files are still fetched."""

    def fetch(fname: Any = None, origin: Any = None, **options: Any) -> Any:
        return fname if str(fname).endswith((".h5", ".keras")) else plain(fname, origin, **options)

    return fetch
