"""`gpuwise build`: will these GPUs work in that machine?"""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gpuwise import api
from gpuwise.surfaces.cli import options
from gpuwise.surfaces.cli.output import check_figure, print_answer, wants_figure, write_figure

__all__ = ["build"]

_OURS = ("json", "strict", "figure")


def build(
    gpu: Annotated[Optional[list[str]], typer.Option("--gpu", help="Cards: 'RTX 3090', '4x RTX 3090'; may be repeated.")] = None,
    psu: Annotated[str, typer.Option(help="Power supply: 1600, or '1600W gold atx3'.")] = "",
    psu_standard: Annotated[Optional[int], typer.Option(help="ATX standard of the supply: 2 or 3.")] = None,
    cpu: Annotated[str, typer.Option(help="The CPU by name, for its watts and cores.")] = "",
    cpu_watts: Annotated[Optional[float], typer.Option(help="What the CPU draws.")] = None,
    board: Annotated[str, typer.Option(help="atx, eatx, ssi, itx, matx, frame, or slots=7,x16=4,spacing=2.")] = "",
    case_slots: Annotated[Optional[int], typer.Option(help="Openings of the case for cards.")] = None,
    lanes: Annotated[str, typer.Option(help="PCIe lanes of the CPU, or a platform: 44, AM5, X299, WRX80, EPYC.")] = "",
    chipset_link: Annotated[str, typer.Option(help="Link of the chipset, such as 'PCIe 3.0 x4'.")] = "",
    riser: Annotated[str, typer.Option(help="Cards on risers: yes, or their link such as 'PCIe 3.0 x16'.")] = "",
    nvme: Annotated[Optional[int], typer.Option(help="NVMe disks, four lanes each.")] = None,
    cooler: Annotated[str, typer.Option(help="Of the cards: blower, open-air, water or passive.")] = "",
    ram: Annotated[str, typer.Option(help="Memory of the host, such as 64GB.")] = "",
    outlet: Annotated[str, typer.Option(help="The wall: '120V 15A', '230V 16A', us, eu, uk.")] = "",
    room: Annotated[str, typer.Option(help="Floor of the room in square metres.")] = "",
    power_limit: Annotated[str, typer.Option(help="A power limit for each GPU, such as 280.")] = "",
    figure: options.FigureFile = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 where a check fails.")] = False,
    json: options.AsJson = False,
) -> None:
    """Check a build: watts, plugs, slots, lanes, cooling, RAM, outlet and heat; each with its number and what to do."""
    asked = {name: value for name, value in locals().items() if name not in _OURS and value is not None}
    check_figure(figure)
    from gpuwise.questions.build.text import render

    answer = api.build(api.build_query(**{"gpu": (), **asked}))
    print_answer(answer, render, json=json)
    if wants_figure(figure):
        from gpuwise.questions.build.figure import power_figure

        write_figure(figure, lambda: power_figure(answer), quiet=json)
    if strict and answer.verdict == "fail":
        raise typer.Exit(1)
