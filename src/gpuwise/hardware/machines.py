"""Links, nodes, hosts and data loaders, looked up by name or alias."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.core.text import either
from gpuwise.core.units import parse
from gpuwise.hardware.tables import read_toml, sources
from gpuwise.hardware.types import Host, Link, Loader, Node

__all__ = ["cpu_model", "find_host", "find_link", "find_node", "hosts", "links", "loaders", "nodes", "with_ram"]

_LONGEST = 200  # the longest name accepted
_MODULES = re.compile(r"(?:(\d{1,2})\s*[x×]\s*)?(?:lp)?ddr\d[a-z]?[- ]?(\d{3,5})", re.IGNORECASE)
_TRANSFER_BYTES = 8.0  # a channel is 64 bits wide
_HINT = "give the modules, such as `--ram-speed DDR5-6000` or `--ram-speed '8x DDR5-4800'`, or a bandwidth such as `90GB/s`"
_MOST_BYTES_PER_S = 1e14
_MAKERS = re.compile(r"\(r\)|\(tm\)|\b(?:intel|amd|apple|core|cpu|processor|\d+-core)\b|\b\d+(?:st|nd|rd|th) gen\b")
_Named = TypeVar("_Named", bound="Link | Node | Host")
_Entry = TypeVar("_Entry", bound="Link | Node | Host | Loader")


@cache
def links() -> Mapping[str, Link]:
    """Return every link by name."""
    return _read("links.toml", _link)


@cache
def nodes() -> Mapping[str, Node]:
    """Return every kind of node by name."""
    return _read("nodes.toml", _node)


@cache
def hosts() -> Mapping[str, Host]:
    """Return every class of CPU by name."""
    return _read("hosts.toml", _host)


@cache
def loaders() -> Mapping[str, Loader]:
    """Return every way of loading images by name."""
    return _read("loaders.toml", _loader)


def find_link(name: str) -> Link:
    """Return the link with this name or alias."""
    return _find(name, links, "link")


def find_node(name: str) -> Node:
    """Return the node with this name, alias or cloud instance type."""
    return _find(name, nodes, "node")


def find_host(name: str) -> Host:
    """Return the host class with this name or alias, or the one that contains the CPU with this name."""
    if len(name) <= _LONGEST and _key(name) not in _spelled(hosts):
        model = cpu_model(name)
        for host in hosts().values():
            if any(re.fullmatch(pattern, model) for pattern in host.models):
                return host
        classes = ", ".join(f"`{host}`" for host in hosts())
        hint = f"use a CPU name such as `i7-8700K`, `Ryzen 5 5600` or `Xeon Gold 6248`, or a CPU class: {classes}"
        raise UnknownName(f"unknown CPU '{name}'", looked_in=f"{len(hosts())} CPU classes", hint=hint)
    return _find(name, hosts, "host")


def with_ram(host: Host, text: str) -> Host:
    """Return the host with RAM of this speed: modules in all of its channels or in as many as given, or a bandwidth.

    >>> with_ram(hosts()["desktop"], "DDR4-3200").memory_bytes_per_s
    51200000000.0
    """
    found = _MODULES.fullmatch(text.strip())
    if found is None:
        try:
            rate = parse(text, "bandwidth")
        except BadValue as fault:
            raise BadValue(f"invalid --ram-speed '{text}': {fault.message}", hint=_HINT) from None
        if not 1e8 <= rate <= _MOST_BYTES_PER_S:
            raise BadValue(f"invalid --ram-speed '{text}'", hint=_HINT)
        return replace(host, memory_bytes_per_s=rate)
    channels = int(found[1]) if found[1] else host.memory_channels
    if not channels:
        raise BadValue(f"the memory of a {host.name} CPU has no modules", hint="give a bandwidth, such as `--ram-speed 300GB/s`")
    return replace(host, memory_bytes_per_s=channels * int(found[2]) * 1e6 * _TRANSFER_BYTES)


def cpu_model(name: str) -> str:
    """Return the model part of a CPU's name, without its maker and clock.

    >>> cpu_model("Intel(R) Core(TM) i7-7700K CPU @ 4.20GHz")
    'i7-7700k'
    """
    return " ".join(_MAKERS.sub(" ", name.lower()).split("@")[0].split())


def _read(path: str, build: Callable[[str, Mapping[str, Any]], _Entry]) -> Mapping[str, _Entry]:
    return {name: build(name, row) for name, row in read_toml(path).items()}


def _key(name: str) -> str:
    """Return one key for `PCIe 4.0 x16`, `pcie4 x16` and `x16 PCIe 4`: words and numbers in alphabetical order."""
    words = re.findall(r"x\d+|[a-z]+|\d+(?:\.\d+)?|\+", name.lower())
    return " ".join(sorted(word.removesuffix(".0") for word in words))


@cache
def _spelled(known: Callable[[], Mapping[str, Any]]) -> dict[str, str]:
    """Return names by the key of each name and alias. If two share a key, the later one wins."""
    return {_key(spelling): entry.name for entry in known().values() for spelling in (entry.name, *entry.aliases)}


def _find(name: str, known: Callable[[], Mapping[str, _Named]], kind: str) -> _Named:
    if len(name) > _LONGEST:
        raise UnknownName(f"the {kind} name is too long ({len(name):,} characters)", hint=f"try `{next(iter(known()))}`")
    names = _spelled(known)
    found = names.get(_key(name))
    if found is not None:
        return known()[found]
    near = [names[key] for key in difflib.get_close_matches(_key(name), names, n=4, cutoff=0.5)]
    meant = either(f"`{other}`" for other in dict.fromkeys(near))
    hint = f"did you mean {meant}?" if meant else f"try `{next(iter(known()))}`"
    raise UnknownName(f"unknown {kind} '{name}'", looked_in=f"{len(known())} {kind}s and their aliases", hint=hint)


def _link(name: str, row: Mapping[str, Any]) -> Link:
    return Link(
        name=name,
        aliases=tuple(row["aliases"]),
        kind=row["kind"],
        bytes_per_s_one_way=parse(row["bytes_per_s_one_way"], "bandwidth"),
        achieved_fraction=row["achieved_fraction"],
        latency_s=parse(row["latency"], "time"),
        source=sources()[row["source"]],
        achieved_source=sources()[row["achieved_source"]],
        latency_source=sources()[row["latency_source"]],
        note=row.get("note", ""),
    )


def _node(name: str, row: Mapping[str, Any]) -> Node:
    return Node(
        name=name,
        aliases=tuple(row["aliases"]),
        gpu=row["gpu"],
        gpu_count=row["gpu_count"],
        gpu_link=row["gpu_link"],
        peer_to_peer=row["peer_to_peer"],
        host_link=row["host_link"],
        network_link=row["network_link"],
        network_count=row["network_count"],
        host=row["host"],
        source=sources()[row["source"]],
        note=row.get("note", ""),
    )


def _host(name: str, row: Mapping[str, Any]) -> Host:
    return Host(
        name=name,
        aliases=tuple(row["aliases"]),
        models=tuple(row.get("models", ())),
        example=row["example"],
        core_count=row["core_count"],
        launch_s=parse(row["launch"], "time"),
        memory_bytes_per_s=parse(row["memory_bandwidth"], "bandwidth"),
        memory_channels=row.get("memory_channels", 0),
        source=sources()[row["source"]],
        note=row.get("note", ""),
    )


def _loader(name: str, row: Mapping[str, Any]) -> Loader:
    return Loader(
        name=name,
        title=row["title"],
        host=row["host"],
        decode_s=parse(row["decode"], "time"),
        transform_s=parse(row["transform"], "time"),
        handover_s=parse(row["handover"], "time"),
        low=row["low"],
        high=row["high"],
        decode_source=sources()[row["decode_source"]],
        transform_source=sources()[row["transform_source"]],
        handover_source=sources()[row["handover_source"]],
        note=row.get("note", ""),
    )
