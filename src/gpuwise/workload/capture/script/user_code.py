"""`file.py:Net` and `package.module:function`: models in the user's own code, which runs here because the user named it.

The name may be a model class, a model, or a function without arguments that returns a model, (model, inputs) or (model, inputs,
loss_function). It may be a PyTorch or a Keras model.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

from gpuwise.core.errors import BadFile, BadValue, MissingExtra, UnknownName
from gpuwise.workload.capture.keras.backend import without_weights
from gpuwise.workload.capture.registry import split_name
from gpuwise.workload.capture.request import Request
from gpuwise.workload.capture.script.user_files import believing, text_of

__all__ = ["is_keras", "maker", "subject"]

Inside = Callable[[list[str], str, Path, bool], AbstractContextManager[None]]


def subject(request: Request) -> Any:
    """Return the model with that name; its inputs come from `--input`, from the function, or are guessed."""
    notes: list[str] = []
    make = maker(request.model, notes, believing)
    if "keras" in sys.modules:
        with without_weights():
            value = make()
        if is_keras(value):
            from gpuwise.workload.capture.keras.source import subject_from_model

            _check_image(value, request)
            return subject_from_model(value, request, tuple(notes))
    try:
        from gpuwise.workload.capture.torch.user_model import subject_from_maker
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        raise MissingExtra("torch", extra="torch", needed_for="capturing a PyTorch model") from None
    return subject_from_maker(make, request, tuple(notes))


def maker(model: str, notes: list[str], inside: Inside) -> Callable[[], Any]:
    """Return a function that creates the model with this name. Its code is imported `inside` a context, such as one that
    pretends to have a GPU.
    """
    where, name = split_name(model)
    if not where or not name:
        raise BadValue(f"'{model}' does not name a model", hint="try `my_model.py:Net` or `package.module:function`")
    module = _from_file(Path(where), notes, inside) if where.endswith(".py") else _imported(where, notes, inside)
    return _maker(_named(module, name, where), model)


def _check_image(model: Any, request: Request) -> None:
    """--image is for Keras inputs whose height and width are open."""
    shapes = [tuple(tensor.shape) for tensor in getattr(model, "inputs", None) or ()]
    if request.image is not None and not any(shape[1:].count(None) >= 2 for shape in shapes):
        raise BadValue(
            f"{request.model} does not accept --image {request.image}, because its inputs have fixed sizes "
            f"({', '.join(map(str, shapes))})",
            hint="leave out --image, or build the model for that size",
        )


def _from_file(path: Path, notes: list[str], inside: Inside) -> ModuleType:
    """Import the file as a module, with its folder first on the path, as in `python file.py`."""
    if not path.is_file():
        what = f"{path} is a folder, not a Python file" if path.is_dir() else f"file {path} not found"
        raise BadFile(what, looked_in=str(Path.cwd()), hint="pass the path of the file, such as `models/net.py:Net`")
    path = path.resolve()
    name = f"user_code_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadFile(f"{path} cannot be imported", hint="pass a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with inside(notes, text_of(path), path.parent, False):
        spec.loader.exec_module(module)
    return module


def _imported(name: str, notes: list[str], inside: Inside) -> ModuleType:
    try:
        with inside(notes, "keras torchvision", Path.cwd(), True):  # installed packages take precedence over local files
            return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{name}.".startswith(f"{missing.name}."):
            raise
        raise UnknownName(
            f"Python module '{missing.name}' not found",
            looked_in=f"the installed packages and {Path.cwd()}",
            hint="pass `file.py:Net`, or run gpuwise in the environment where the module is installed",
        ) from None
    except (ValueError, TypeError):  # such as "..x"
        raise UnknownName(f"'{name}' is not a valid module name", hint="try `package.module:function`") from None


def _named(module: ModuleType, name: str, where: str) -> Any:
    thing: Any = module
    for part in name.split("."):
        try:
            thing = getattr(thing, part)
        except AttributeError:
            own = _own_names(module)
            near = difflib.get_close_matches(name, own, n=1, cutoff=0.5)
            raise UnknownName(
                f"{where} has no '{name}'",
                looked_in=f"its classes and functions ({', '.join(own[:30]) or 'it has none'})",
                hint=f"did you mean `{where}:{near[0]}`?" if near else "name a model class, or a function that returns a model",
            ) from None
    return thing


def _own_names(module: ModuleType) -> list[str]:
    """Return the classes and functions defined here, and callable objects."""
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and callable(value)
        and getattr(type(value), "__module__", "") != "typing"
        and (
            getattr(value, "__module__", module.__name__) == module.__name__
            or (not inspect.isroutine(value) and not inspect.isclass(value))
        )
    )


def _maker(thing: Any, label: str) -> Callable[[], Any]:
    """Return a function without arguments that creates what was named."""
    is_model_object = hasattr(thing, "forward") or is_keras(thing)
    if is_model_object and not inspect.isclass(thing):
        return lambda: thing
    if not callable(thing):
        raise BadValue(
            f"{label} is a {type(thing).__name__}, not a model",
            hint="name a model class, a model instance, or a function that returns a model",
        )
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        parameters = ()  # type: ignore[assignment]  # written in C; calling it will show
    needed = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if needed:
        where, name = split_name(label)
        file = where if where.endswith(".py") else "my_model.py"
        values = ", ".join(f"{argument}=…" for argument in needed)
        raise BadValue(
            f"{label} cannot be built without arguments: it needs {', '.join(needed)}",
            hint=f"write a function such as `def build(): return {name}({values})` and capture `{file}:build`",
        )
    made: Callable[[], Any] = thing
    return made


def is_keras(value: Any) -> bool:
    """Return whether this is a Keras layer or model, or such a class."""
    kinds = value.__mro__ if inspect.isclass(value) else type(value).__mro__
    return any(
        kind.__name__ in ("Layer", "Model") and kind.__module__.partition(".")[0] in ("keras", "tf_keras") for kind in kinds
    )
