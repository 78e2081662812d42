"""Servers with data-centre GPUs: what a laboratory buys.

Accelerator modules are sold in boards of eight, cards one by one. Prices and watts of servers without GPUs are stated defaults.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuwise.box.parts import is_card
from gpuwise.hardware.types import Gpu

__all__ = ["COOLING", "LAB_USD", "Server", "in_server", "server_counts", "server_for"]

LAB_USD = 10_000.0  # a budget from which servers are considered, assumed
COOLING = 0.5  # of the power of the machines: the average data centre, Uptime Institute's survey of 2024 (PUE 1.56)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server without its GPUs."""

    title: str
    usd: float
    watts: float
    most_gpus: int


_FOR_CARDS = Server(title="a server for eight PCIe cards", usd=15_000.0, watts=800.0, most_gpus=8)  # two CPUs, 512 GB, assumed
_FOR_MODULES = Server(title="a server for eight modules", usd=60_000.0, watts=4_000.0, most_gpus=8)  # a DGX H100 draws 10.2 kW


def in_server(gpu: Gpu) -> bool:
    """Whether it is only used in a server."""
    return gpu.segment == "datacenter"


def server_for(gpu: Gpu) -> Server:
    """The server that takes this GPU."""
    return _FOR_CARDS if is_card(gpu) else _FOR_MODULES


def server_counts(gpu: Gpu, wished: Sequence[int]) -> tuple[int, ...]:
    """How many of these GPUs one can buy in a server: modules only all together."""
    server = server_for(gpu)
    return tuple(count for count in wished if count == server.most_gpus or (server is _FOR_CARDS and count < server.most_gpus))
