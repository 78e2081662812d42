"""All models in the zoo, by name."""

from __future__ import annotations

from importlib import import_module

from zoo.model import Model

__all__ = ["MODULES", "models"]

MODULES = (
    "vision",
    "small",
    "recurrent",
    "attention",
    "recommenders",
    "diffusion",
    "unets",
    "pictures",
    "control",
    "dit",
    "yolo",
    "detection",
    "speech",
    "language",
)


def models() -> dict[str, Model]:
    """Return every model that the modules in this package define."""
    found: dict[str, Model] = {}
    for module in MODULES:
        for model in import_module(f"zoo.{module}").models():
            if model.name in found:
                raise ValueError(f"two models are called {model.name}")
            found[model.name] = model
    return found
