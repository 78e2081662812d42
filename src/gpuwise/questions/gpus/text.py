"""GPUs as text: a list, the fact sheet of one with the source of each value, or several side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuwise.core.provenance import Basis, Fact, Source
from gpuwise.core.text import either, opening, plural, the
from gpuwise.core.units import GIB, KIB, MIB, format_si
from gpuwise.hardware.types import DTYPES, Architecture, Gpu
from gpuwise.questions.gpus.answer import GpuAnswer
from gpuwise.render.text import Column, bold, join_notes, table, wrapped

__all__ = ["render"]

_NONE = "–"
_MINOR = ("base_clock_hz", "matrix_clock_hz", "power_min_watts", "slots", "cooler", "ecc", "display")  # not in a brief sheet


def render(answer: GpuAnswer, *, all: bool = False, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """The answer as a list, a sheet or a comparison, by how many names were given."""
    if len(answer.matches) == 1 and answer.gpus:
        return _sheet(answer.gpus[0], colour, verbose) + join_notes(_name_notes(answer, width))
    if answer.matches and answer.gpus:
        return _side_by_side(answer.gpus, width, colour) + join_notes(_name_notes(answer, width))
    return _listing(answer, all, width, colour)


def _name_notes(answer: GpuAnswer, width: int | None) -> list[str]:
    notes = []
    for asked, match in answer.matches:
        if match.others:
            others = either(gpu.name for gpu in match.others[:6])
            notes.append(
                wrapped(f"note: '{asked}' was interpreted as {match.gpu.name}; it could also mean {others}", width, "  ")
            )
    return notes


# ---------------------------------------------------------------- figures


def _bytes(value: float | None) -> str:
    if value is None:
        return _NONE
    for unit, name in ((GIB, "GB"), (MIB, "MB"), (KIB, "KB")):
        if value >= unit:
            return f"{value / unit:.4g} {name}"
    return f"{value:g} B"


def _tera(value: float | None) -> str:
    """TFLOP/s with three digits, without the unit (the head line has it)."""
    if value is None:
        return _NONE
    tera = value / 1e12
    return f"{tera:.0f}" if tera >= 100 else f"{tera:.1f}" if tera >= 1 else f"{tera:.2f}"


def _number(value: float | None, unit: str = "") -> str:
    return _NONE if value is None else f"{value:.4g}{' ' + unit if unit else ''}"


def _usd(value: float | None) -> str:
    return _NONE if value is None else f"${value:,.0f}"


def _year(gpu: Gpu) -> str:
    return str(gpu.launched_on.year) if gpu.launched_on else _NONE


# ---------------------------------------------------------------- list


def _listing(answer: GpuAnswer, everything: bool, width: int | None, colour: bool) -> str:
    shown = [gpu for gpu in answer.gpus if everything or gpu.curated or gpu.source.id == "user-catalog"]
    hidden = len(answer.gpus) - len(shown)
    if not shown and not hidden:
        return "No GPU matches these filters."
    text = table(_columns(shown), width=width, colour=colour)
    more = f" Add `--all` to include {plural(opening(hidden).lower(), 'less-common GPU')}." if hidden else ""
    note = (
        f"{plural(f'{len(shown):,}', 'GPU')}.{more} Peak rates are for dense operations, in TFLOP/s (int8: TOP/s); "
        "fp16, bf16 and fp8 rates assume fp32 accumulation. "
        f"Prices are launch prices. Data from {answer.data_date}."
    )
    return f"{text}\n\n{wrapped(note, width)}"


def _columns(gpus: Sequence[Gpu]) -> list[Column]:
    def each(show: Callable[[Gpu], str]) -> list[str]:
        return [show(gpu) for gpu in gpus]

    return [
        Column(title="GPU", cells=each(lambda gpu: gpu.name), right=False),
        Column(title="arch", cells=each(lambda gpu: gpu.architecture.generation), right=False, drop=4),
        Column(title="year", cells=each(_year), drop=2),
        Column(title="memory", cells=each(lambda gpu: _bytes(gpu.memory_bytes))),
        Column(title="GB/s", cells=each(lambda gpu: f"{gpu.memory_bytes_per_s / 1e9:.0f}")),
        Column(title="fp32", cells=each(lambda gpu: _tera(gpu.peak_flops_per_s.get("vector", {}).get("fp32")))),
        Column(title="tf32", cells=each(lambda gpu: _tera(gpu.best_peak("tf32"))), drop=5),
        Column(title="fp16", cells=each(lambda gpu: _tera(gpu.best_peak("fp16")))),
        Column(title="bf16", cells=each(lambda gpu: _tera(gpu.best_peak("bf16"))), drop=3),
        Column(title="fp8", cells=each(lambda gpu: _tera(gpu.best_peak("fp8"))), drop=6),
        Column(title="int8", cells=each(lambda gpu: _tera(gpu.best_peak("int8"))), drop=7),
        Column(title="TDP W", cells=each(lambda gpu: _number(gpu.tdp_watts))),
        Column(title="price", cells=each(lambda gpu: _usd(gpu.launch_usd)), drop=1),
    ]


# ---------------------------------------------------------------- one GPU


def _rows(gpu: Gpu) -> list[tuple[str, str, str]]:
    """Label, shown value and the field whose source is cited."""
    unit = gpu.architecture.unit
    lanes = f" ({gpu.core_count:,} {'ALUs' if unit == 'core' else 'cores'})" if gpu.core_count else ""
    return [
        (f"{unit}s", f"{gpu.sm_count}{lanes}", "sm_count"),
        ("base clock", _hertz(gpu.base_clock_hz), "base_clock_hz"),
        ("boost clock", _hertz(gpu.boost_clock_hz), "boost_clock_hz"),
        ("matrix clock", _hertz(gpu.matrix_clock_hz) if gpu.matrix_clock_hz != gpu.boost_clock_hz else "", "matrix_clock_hz"),
        ("memory", f"{_bytes(gpu.memory_bytes)} {gpu.memory_type}".strip(), "memory_bytes"),
        ("usable memory", _usable(gpu), "usable_memory_bytes"),
        ("slow memory", _slow(gpu), "slow_memory_bytes"),
        ("bandwidth", _bandwidth(gpu), "memory_bytes_per_s"),
        ("L2 cache", _bytes(gpu.l2_bytes), "l2_bytes"),
        ("L3 cache" if gpu.is_cpu else "Infinity Cache", _bytes(gpu.l3_bytes) if gpu.l3_bytes else "", "l3_bytes"),
        ("TDP", _number(gpu.tdp_watts, "W"), "tdp_watts"),
        ("power limits", _power_range(gpu), "power_min_watts"),
        ("PCIe", f"{gpu.pcie_generation}.0 x{gpu.pcie_lanes}" if gpu.pcie_lanes else "", "pcie_lanes"),
        ("NVLink", _nvlink(gpu), "nvlink_bytes_per_s"),
        ("slots", _number(gpu.slots) if gpu.slots else "", "slots"),
        ("cooler", gpu.cooler, "cooler"),
        ("connectors", gpu.power_connectors, "power_connectors"),
        ("ECC", {True: "yes", False: "no", None: ""}[gpu.ecc], "ecc"),
        ("display", {True: "yes", False: "no (passive)", None: ""}[gpu.display], "display"),
        ("launched", gpu.launched_on.isoformat() if gpu.launched_on else _NONE, "launched_on"),
        ("launch price", _usd(gpu.launch_usd), "launch_usd"),
    ]


def _hertz(value: float | None) -> str:
    return _NONE if value is None else f"{value / 1e6:.0f} MHz"


def _usable(gpu: Gpu) -> str:
    return "" if gpu.usable_memory_bytes == gpu.memory_bytes else f"{gpu.usable_memory_bytes / MIB:,.0f} MiB"


def _slow(gpu: Gpu) -> str:
    speed = gpu.slow_memory_bytes_per_s
    return f"{gpu.slow_memory_bytes / MIB:,.0f} MiB more at {format_si(speed, 'B/s')}" if speed else ""


def _bandwidth(gpu: Gpu) -> str:
    shown = format_si(gpu.memory_bytes_per_s, "B/s", 4)
    if gpu.memory_bus_bits and gpu.memory_bits_per_s_per_pin:
        shown += f" ({gpu.memory_bus_bits} bit x {gpu.memory_bits_per_s_per_pin / 1e9:g} Gbit/s)"
    return shown


def _power_range(gpu: Gpu) -> str:
    low, high = gpu.power_min_watts, gpu.power_max_watts
    return f"{_number(low)} to {_number(high)} W" if low is not None or high is not None else ""


def _nvlink(gpu: Gpu) -> str:
    if gpu.nvlink_bytes_per_s is None:
        return ""
    return f"generation {gpu.nvlink_generation}, {format_si(gpu.nvlink_bytes_per_s, 'B/s', 4)} for both directions combined"


def _sheet(gpu: Gpu, colour: bool, verbose: bool) -> str:
    """Its figures; with `verbose` all of them, each with its source."""
    marks = _Footnotes()
    family = gpu.architecture.title.removeprefix(f"{gpu.vendor} ")
    lines = [bold(gpu.name, colour=colour) + "  " + ", ".join(filter(None, (f"{gpu.vendor} {family}", gpu.segment, gpu.chip)))]
    if gpu.devices_per_board > 1:
        lines.append(f"the board has {gpu.devices_per_board} GPUs; these values are for one of them")
    lines.append("")
    for label, value, field in _rows(gpu):
        if value and value != _NONE and (verbose or field not in _MINOR):
            fact = gpu.fact(field)
            assumed = f" ({fact.basis.value}: {fact.note})" if fact.note else ""
            lines.append(f"  {label:<15} {value}{assumed}" + (f" {_cite(marks, fact)}" if verbose else ""))
    lines += ["", bold("  dense peaks      matrix       vector   published", colour=colour), *_peak_lines(gpu)]
    if not verbose:
        note = [f"  note            {gpu.note}"] if gpu.note else []
        return "\n".join([*lines, *note, "", "`-v` adds clocks, cooling, software and the source of every value"])
    cited = f"; published values {_cite(marks, gpu.fact('published_flops_per_s'))}" if gpu.published_flops_per_s else ""
    lines.append(f"  (units x clock x operations per clock {_cite(marks, gpu.architecture)}{cited})")
    lines += ["", *_software_lines(gpu, marks)]
    if gpu.note:
        lines.append(f"  note            {gpu.note}")
    return "\n".join([*lines, "", *marks.lines()])


def _peak_lines(gpu: Gpu) -> list[str]:
    lines = []
    for dtype in DTYPES:
        unit = "OP/s" if dtype.startswith("int") else "FLOP/s"
        engines = [gpu.peak_flops_per_s.get(engine, {}).get(dtype) for engine in ("matrix", "vector")]
        published = [
            f"{engine} {format_si(value / gpu.devices_per_board, unit)}"
            for engine in ("matrix", "vector")
            if (value := gpu.published_flops_per_s.get(engine, {}).get(dtype)) is not None
        ]
        if any(engines):
            shown = [format_si(value, unit) if value else _NONE for value in engines]
            lines.append(f"  {dtype:<11} {shown[0]:>12} {shown[1]:>12}   {', '.join(published)}".rstrip())
    return lines


def _software_lines(gpu: Gpu, marks: _Footnotes) -> list[str]:
    architecture = gpu.architecture
    until = f"to {architecture.last_software}" if architecture.last_software else "and newer"
    served = architecture.first_software and f"{architecture.first_software} {until}"
    rows = [
        ("capability", architecture.capability),
        ("features", ", ".join(architecture.features)),
        ("software", served),
    ]
    return [f"  {label:<15} {value} {_cite(marks, architecture)}" for label, value in rows if value]


def _cite(marks: _Footnotes, what: Fact | Architecture) -> str:
    return marks.mark(what.source, what.basis if isinstance(what, Fact) else what.source.basis)


class _Footnotes:
    """Numbers the sources in the order they are first cited; a source cited for two reasons has two numbers."""

    def __init__(self) -> None:
        self._cited: dict[tuple[Source, Basis], int] = {}

    def mark(self, source: Source, basis: Basis) -> str:
        return f"[{self._cited.setdefault((source, basis), len(self._cited) + 1)}]"

    def lines(self) -> list[str]:
        return [
            f"  [{number}] {source.title} ({basis.value})" + (f" {source.url}" if source.url else "")
            for (source, basis), number in self._cited.items()
        ]


# ---------------------------------------------------------------- several GPUs


def _comparison_rows(gpu: Gpu) -> list[tuple[str, float | None, str]]:
    """Label, value for the ratio, shown value."""
    fp32 = gpu.peak_flops_per_s.get("vector", {}).get("fp32")
    board = " per board" if gpu.launch_usd and gpu.devices_per_board > 1 else ""
    rows: list[tuple[str, float | None, str]] = [
        ("memory", gpu.memory_bytes, _bytes(gpu.memory_bytes)),
        ("bandwidth", gpu.memory_bytes_per_s, format_si(gpu.memory_bytes_per_s, "B/s")),
        ("L2 cache", gpu.l2_bytes, _bytes(gpu.l2_bytes)),
        ("fp32 vector", fp32, format_si(fp32, "FLOP/s") if fp32 else _NONE),
    ]
    for dtype in ("tf32", "fp16", "bf16", "fp8", "fp4", "int8"):
        peak = gpu.peak_flops_per_s.get("matrix", {}).get(dtype)
        rows.append((f"{dtype} matrix", peak, format_si(peak, "FLOP/s" if dtype[0] != "i" else "OP/s") if peak else _NONE))
    rows += [
        ("units", float(gpu.sm_count), f"{gpu.sm_count} {gpu.architecture.unit}"),
        ("boost clock", gpu.boost_clock_hz, _hertz(gpu.boost_clock_hz)),
        ("TDP", gpu.tdp_watts, _number(gpu.tdp_watts, "W")),
        ("launch price", gpu.launch_usd, _usd(gpu.launch_usd) + board),
    ]
    return rows


def _side_by_side(gpus: Sequence[Gpu], width: int | None, colour: bool) -> str:
    rows = [_comparison_rows(gpu) for gpu in gpus]
    keep = [index for index in range(len(rows[0])) if any(column[index][1] is not None for column in rows)]
    columns = [Column(title="", cells=[*(rows[0][index][0] for index in keep), "architecture", "launched"], right=False)]
    for gpu, column in zip(gpus, rows, strict=True):
        cells = [column[index][2] + _ratio(column[index][1], rows[0][index][1], gpu is gpus[0]) for index in keep]
        columns.append(Column(title=gpu.name, cells=[*cells, gpu.architecture.title, _year(gpu)]))
    peaks = "Peak rates are for dense operations; fp16, bf16 and fp8 rates assume fp32 accumulation."
    note = f"Ratios are relative to {the(gpus[0].name)}. {peaks}"
    return f"{table(columns, width=width, colour=colour)}\n\n{wrapped(note, width)}"


def _ratio(value: float | None, baseline: float | None, is_baseline: bool) -> str:
    if is_baseline:
        return ""
    if value is None or not baseline:
        return "        "
    return f"  {value / baseline:5.2f}x"
