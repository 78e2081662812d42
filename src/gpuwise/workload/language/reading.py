"""Reads numbers and switches from an untrusted configuration; each is checked before it is used."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuwise.core.errors import BadValue
from gpuwise.workload.language.shape import LanguageShape

__all__ = ["Reader", "checked", "shown"]

_SHOWN = 60
_NO_DEFAULT = -1
# The largest known model has at most a tenth of each of these. Larger numbers are mistakes, and their products overflow.
_MOST = {
    "layers": 4096,
    "heads": 8192,
    "experts": 65_536,
    "vocabulary": 2**24,
    "context": 2**31,
    "width": 2**20,
}


@dataclass(frozen=True, slots=True)
class Reader:
    """A mapping of names to values of any kind, and what to call it in an error."""

    values: Mapping[str, Any]
    where: str

    def count(self, *keys: str, most: str = "width", default: int = _NO_DEFAULT, least: int = 1) -> int:
        """Return the whole number under the first of these keys that has one; null counts as absent."""
        for key in keys:
            if (value := self.values.get(key)) is not None:
                return self._sound(key, value, least, _MOST[most])
        if default != _NO_DEFAULT:
            return default
        near = difflib.get_close_matches(keys[0], [key for key in self.values if isinstance(key, str)], n=1, cutoff=0.8)
        spelt = f", but it has '{near[0]}'" if near else ""
        raise BadValue(
            f"{self.where} has no '{keys[0]}'{spelt}",
            looked_in=", ".join(f"'{key}'" for key in keys),
            hint="use the configuration that was published with the weights",
        )

    def _sound(self, key: str, value: object, least: int, most: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise BadValue(
                f"'{key}' in {self.where} must be a whole number, not {shown(value)}",
                hint=f'write `"{key}": 32` without quotes around the number',
            )
        if not least <= value <= most:
            raise BadValue(
                f"'{key}' in {self.where} is {shown(value)}, which is out of range",
                hint=f"use a value between {least:,} and {most:,}, or the configuration that was published with the weights",
            )
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """Return a switch; null counts as absent."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise BadValue(f"'{key}' in {self.where} must be true or false, not {shown(value)}", hint=f'write `"{key}": true`')
        return value

    def word(self, key: str, default: str = "") -> str:
        """Return a text; null counts as absent."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise BadValue(f"'{key}' in {self.where} must be a string, not {shown(value)}", hint=f'write `"{key}": "silu"`')
        return value

    def listed(self, key: str) -> Sequence[Any]:
        """Return a list, empty if there is none."""
        value = self.values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list | tuple):
            raise BadValue(f"'{key}' in {self.where} must be a list, not {shown(value)}", hint=f'write `"{key}": []`')
        return value

    def inner(self, key: str) -> Reader:
        """Return the mapping under a key, empty if there is none."""
        value = self.values.get(key)
        if value is None:
            return Reader({}, f"'{key}' in {self.where}")
        if not isinstance(value, Mapping):
            raise BadValue(
                f"'{key}' in {self.where} must be a group of settings, not {shown(value)}", hint=f'write `"{key}": {{}}`'
            )
        return Reader(value, f"'{key}' in {self.where}")


def shown(value: object) -> str:
    """Return a value as an error shows it, shortened if necessary. Python refuses to print integers with thousands of digits."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a group of settings"
    return repr(value)[:_SHOWN]


def checked(shape: LanguageShape, where: str) -> LanguageShape:
    """Return the shape, if its sizes are plausible for one model."""
    faults = {
        f"{shape.heads} heads cannot share {shape.kv_heads} key-value heads": not shape.latent and shape.heads % shape.kv_heads,
        f"{shape.chosen} experts are chosen out of {shape.experts}": shape.experts and not 1 <= shape.chosen <= shape.experts,
        f"{shape.dense_layers} of {shape.layers} layers are dense": shape.dense_layers > shape.layers,
        f"{shape.window_layers} of {shape.layers} layers have a window": shape.window_layers > shape.layers,
        f"a head of width {shape.head_dim} cannot use {shape.rope_dim} for positions": shape.rope_dim > shape.head_dim,
    }
    for fault, present in faults.items():
        if present:
            raise BadValue(f"{where} is inconsistent: {fault}", hint="use the configuration that was published with the weights")
    return shape
