"""GPUs that a user describes on the command line or in a file.

`name=Foo,arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=500GB/s,tdp=200W` on the command line, or the same keys as TOML:

    [[gpu]]
    name = "Foo"
    arch = "ada"
    sm = 60
    boost = "2.5 GHz"
    mem = "16 GB"
    bw = "500 GB/s"

For a card that differs from a listed one in only a few values, give just those: `name=RTX 4090 48GB,like=RTX 4090,mem=48GB`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from gpuwise.core.errors import BadFile, BadValue, GpuwiseError, UnknownName
from gpuwise.core.files import check_readable
from gpuwise.core.provenance import Basis, Fact, Source
from gpuwise.core.text import both, either
from gpuwise.core.units import GIB, parse, parse_memory
from gpuwise.hardware import physics, tables
from gpuwise.hardware.types import Architecture, Gpu

__all__ = ["EXAMPLE", "KEYS", "find_architecture", "gpu_from_spec", "gpu_from_text", "like_text", "own_specs", "read_catalog"]

EXAMPLE = '"name=Foo,arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=500GB/s,tdp=200W"'
_TYPED = Source(id="typed", title="entered by the user", basis=Basis.GIVEN)


def _count(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadValue(f"'{text}' is not a whole number", hint="write it without a unit, such as `sm=60`") from None


def _accumulate(text: str) -> bool:
    if text not in ("half", "full"):
        raise BadValue(f"accumulate must be half or full, not '{text}'", hint="use half for GeForce cards and full for others")
    return text == "half"


def _as(kind: str) -> Callable[[str], float]:
    return lambda text: parse(text, kind)


# key -> (field of Gpu, parser); the first five are required.
KEYS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "arch": ("architecture", lambda text: find_architecture(text)),
    "sm": ("sm_count", _count),
    "boost": ("boost_clock_hz", _as("clock")),
    "mem": ("memory_bytes", parse_memory),
    "bw": ("memory_bytes_per_s", _as("bandwidth")),
    "name": ("name", str),
    "base": ("base_clock_hz", _as("clock")),
    "tdp": ("tdp_watts", _as("power")),
    "l2": ("l2_bytes", parse_memory),
    "l3": ("l3_bytes", parse_memory),
    "usable": ("usable_memory_bytes", parse_memory),
    "price": ("launch_usd", _as("money")),
    "accumulate": ("half_accumulate", _accumulate),
}
_REQUIRED = ("arch", "sm", "boost", "mem", "bw")
_LIKE = "like"  # a listed GPU that provides all values that are not given
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:gb|gib|g)\b", re.IGNORECASE)


def find_architecture(name: str) -> Architecture:
    """Return the architecture with this id."""
    known = tables.architectures()
    key = name.strip().lower().replace(" ", "-").replace("_", "-")
    if key in known:
        return known[key]
    near = difflib.get_close_matches(key, known, n=3, cutoff=0.5)
    hint = f"did you mean {either(f'`{n}`' for n in near)}?" if near else f"use one of {', '.join(known)}"
    raise UnknownName(f"unknown architecture '{name}'", looked_in=f"{len(known)} architectures", hint=hint)


def like_text(gpu: Gpu, name: str, *keys: str) -> str:
    """Return the specs that a user would type for a GPU with another name: like this GPU, but with the memory size in the name.
    The values of these `keys` are included so that the user can change them.
    """
    asked = _SIZE.search(name)
    shown = {
        "sm": f"{gpu.sm_count}",
        "boost": f"{gpu.boost_clock_hz / 1e9:g}GHz",
        "mem": f"{asked[1] if asked else f'{gpu.memory_bytes / GIB:g}'}GB",
        "bw": f"{gpu.memory_bytes_per_s / 1e9:g}GB/s",
        "tdp": f"{gpu.tdp_watts:g}W" if gpu.tdp_watts else "",
    }
    values = ",".join(f"{key}={shown[key]}" for key in shown if shown[key] and (key == "mem" or key in keys))
    return f'"name={" ".join(name.replace(",", " ").split())},like={gpu.name},{values}"'


def own_specs(name: str, find: Callable[[str], Gpu | None]) -> str:
    """Return specs for an unlisted GPU, based on the one whose name it extends: an `RTX 5080 Super` from the `RTX 5080`."""
    words = name.replace(",", " ").split()
    base = next((gpu for size in range(len(words) - 1, 1, -1) if (gpu := find(" ".join(words[:size])))), None)
    if base is None or base.is_cpu:
        return ""
    text = like_text(base, name, "sm", "boost", "bw", "tdp")
    return f". For a GPU that is not listed, change the specs of the {base.name}: {text}"


def gpu_from_text(text: str, find: Callable[[str], Gpu] | None = None) -> Gpu:
    """Parse a GPU from `key=value,key=value`; `find` looks up the GPU that `like` names."""
    values: dict[str, str] = {}
    for part in " ".join(text.split()).split(","):  # a hint that was copied may contain line breaks
        key, equals, value = part.partition("=")
        key = key.strip().lower()
        if not equals or not value.strip():
            raise BadValue(f"'{part.strip()}' in the custom GPU does not have the form key=value", hint=f"try {EXAMPLE}")
        if key in values:
            raise BadValue(f"'{key}' appears twice in the custom GPU", hint=f"try {EXAMPLE}")
        values[key] = value.strip()
    return gpu_from_spec(values, source=_TYPED, find=find)


def gpu_from_spec(values: Mapping[str, str], *, source: Source, find: Callable[[str], Gpu] | None = None) -> Gpu:
    """Build a GPU from the user's own values, with all others from the GPU that `like` names. Without `like`, a missing L2 size
    or TDP is estimated from similar GPUs and marked as assumed.
    """
    known = (*KEYS, *([_LIKE] if find else []))
    unknown = [key for key in values if key not in known]
    if unknown:
        near = difflib.get_close_matches(unknown[0], known, n=1, cutoff=0.3)
        hint = f"did you mean `{near[0]}`? " if near else ""
        raise BadValue(f"'{unknown[0]}' is not a valid key for a custom GPU", known=", ".join(known), hint=f"{hint}Try {EXAMPLE}")
    base = find(values[_LIKE]) if find and _LIKE in values else None
    missing = [key for key in _REQUIRED if key not in values] if base is None else []
    if missing:
        raise BadValue(f"a custom GPU also needs {both(missing)}", hint=f"try {EXAMPLE}")
    fields = {KEYS[key][0]: KEYS[key][1](value) for key, value in values.items() if key != _LIKE}
    if base is None:
        _check_memory(fields["architecture"], fields["memory_bytes_per_s"])
    gpu = _changed(base, fields, source) if base else _complete(fields, source)
    found = physics.faults(gpu)
    if found:
        raise BadValue(
            f"the specs of '{gpu.name}' are impossible: " + "; ".join(str(fault) for fault in found),
            hint="check the units (GB/s, not Gbit/s) and the values (for one device, with dense peaks)",
        )
    return gpu


_GEFORCE = re.compile(r"(nvidia )?(geforce )?rtx \d{4}( ti)?( super)?( d)?( \d+ ?gb)?")  # names of GeForce cards
_STACKED_BYTES_PER_S = 3e12  # data-centre Blackwell has 7.7 TB/s; no graphics card of its generation exceeds 1.8 TB/s


def _check_memory(architecture: Architecture, bytes_per_s: float) -> None:
    """Refuse a data-centre chip with the memory of a graphics card: two different chips of one generation share a name."""
    if architecture.id == "blackwell" and bytes_per_s < _STACKED_BYTES_PER_S:
        raise BadValue(
            f"arch=blackwell is the data-centre chip, whose memory is far faster than {bytes_per_s / 1e9:,.0f} GB/s",
            hint="write `arch=blackwell-rtx` for a GeForce RTX or RTX PRO card",
        )


def _changed(base: Gpu, fields: dict[str, Any], source: Source) -> Gpu:
    """Return a GPU like this one, but with some values changed. Values that depend on them change as well or are left out, as are
    the price and the other names of the original.
    """
    new = {name: value for name, value in fields.items() if value != getattr(base, name)}
    more: dict[str, Any] = {"name": f"{base.name} (changed)", "aliases": (), "launch_usd": None, "curated": False}
    if "memory_bytes" in new:  # the driver reserves as much as on the original
        more["usable_memory_bytes"] = new["memory_bytes"] - (base.memory_bytes - base.usable_memory_bytes)
    if "memory_bytes_per_s" in new:
        more |= {"memory_bus_bits": None, "memory_bits_per_s_per_pin": None}
    if "boost_clock_hz" in new:
        more["matrix_clock_hz"] = base.matrix_clock_hz * new["boost_clock_hz"] / base.boost_clock_hz
    if new.keys() & {"sm_count", "boost_clock_hz", "architecture"}:
        more |= {"core_count": None, "published_flops_per_s": {}}
    told = {name: Fact(value=value, source=source, basis=Basis.GIVEN) for name, value in new.items()}
    return replace(base, **{**more, **new}, exceptions={**base.exceptions, **told})


def _complete(fields: dict[str, Any], source: Source) -> Gpu:
    architecture: Architecture = fields["architecture"]
    fields.setdefault("name", "custom GPU")
    fields.setdefault("matrix_clock_hz", fields["boost_clock_hz"])
    fields.setdefault("usable_memory_bytes", fields["memory_bytes"])
    exceptions: dict[str, Fact] = {}
    for field in ("l2_bytes", "tdp_watts"):
        if field not in fields:
            estimate = _from_relatives(architecture, field, fields["sm_count"])
            if estimate is not None:
                fields[field], exceptions[field] = estimate.value, estimate
    if architecture.half_accumulate and "half_accumulate" not in fields:
        half = bool(_GEFORCE.fullmatch(fields["name"].strip().lower()))
        rate = "half the matrix rate, as on GeForce cards" if half else "full matrix rate; set accumulate=half for a GeForce card"
        fields["half_accumulate"], exceptions["half_accumulate"] = half, _assumed(half, rate)
    if "matrix" in architecture.ops_per_unit_per_clock:
        exceptions["matrix_clock_hz"] = _assumed(
            fields["boost_clock_hz"], "the matrix engine is assumed to run at the boost clock"
        )
    return Gpu(**fields, vendor=architecture.vendor, segment="custom", curated=False, source=source, exceptions=exceptions)


def _from_relatives(architecture: Architecture, field: str, sm_count: int) -> Fact | None:
    """Return the median of that field per SM among curated GPUs of the architecture, times this GPU's SM count."""
    relatives = [g for g in tables.curated_gpus() if g.architecture is architecture and getattr(g, field) is not None]
    if not relatives:
        return None
    per_unit = median(getattr(gpu, field) / gpu.sm_count for gpu in relatives)
    largest = max(getattr(gpu, field) for gpu in relatives)
    note = f"median per {architecture.unit} of {len(relatives)} {architecture.title} GPUs"
    return _assumed(min(per_unit * sm_count, largest), note)


def _assumed(value: object, note: str) -> Fact:
    return Fact(value=value, source=Source(id="assumed", title=note, basis=Basis.ASSUMED), basis=Basis.ASSUMED, note=note)


def read_catalog(path: Path, find: Callable[[str], Gpu] | None = None) -> tuple[Gpu, ...]:
    """Read the GPUs in a user's own TOML file; `find` looks up the GPUs that their `like` names."""
    rows = _catalog_rows(path)
    source = Source(id="user-catalog", title=f"user catalogue {path.name}", basis=Basis.GIVEN)
    gpus: list[Gpu] = []
    for number, row in enumerate(rows, start=1):
        try:
            if "name" not in row:
                raise BadValue("the name is missing", hint='add `name = "…"`')
            if str(row["name"]).lower() in (gpu.name.lower() for gpu in gpus):
                raise BadValue("the name appears twice", hint="give each GPU its own name")
            gpus.append(gpu_from_spec({key: str(value) for key, value in row.items()}, source=source, find=find))
        except GpuwiseError as fault:
            label = f" ({row['name']})" if "name" in row else ""
            raise BadFile(
                f"{path}: gpu {number}{label}: {fault.message}", looked_in=fault.looked_in, known=fault.known, hint=fault.hint
            ) from None
    return tuple(gpus)


def _catalog_rows(path: Path) -> list[Mapping[str, Any]]:
    hint = "write [[gpu]] tables with the keys " + ", ".join(KEYS)
    check_readable(path, hint)
    try:
        table = tables.parse_toml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadFile(f"catalogue file {path} not found", hint="check the path given to --catalog") from None
    except (OSError, UnicodeDecodeError) as fault:
        raise BadFile(f"catalogue {path} cannot be read: {fault}", hint=hint) from None
    except (ValueError, RecursionError) as fault:
        raise BadFile(f"catalogue {path} is not valid TOML: {fault}", hint=hint) from None
    rows = table.get("gpu")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise BadFile(f"catalogue {path} contains no [[gpu]] table", hint=hint)
    return rows
