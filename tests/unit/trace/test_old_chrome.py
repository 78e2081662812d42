"""Older Chrome traces: events without a category, begins and ends, byte order marks, and texts that are no UTF-8."""

from __future__ import annotations

import codecs
import json
from pathlib import Path
from typing import Any

import pytest

import gpuwise
from gpuwise.trace.read import read_trace
from gpuwise.trace.types import Kind
from making_traces import SGEMM, autograd_profile, training


def write(path: Path, content: Any, encoding: str = "utf-8") -> Path:
    path.write_bytes(json.dumps(content).encode(encoding))
    return path


def pair(name: str, begin: float, end: float, tid: int = 1) -> list[dict[str, Any]]:
    start = {"ph": "B", "name": name, "cat": "kernel", "pid": 0, "tid": tid, "ts": begin, "args": {"device": 0, "stream": 7}}
    return [start, {"ph": "E", "pid": 0, "tid": tid, "ts": end}]


def test_events_of_the_old_autograd_profiler_are_told_apart_by_their_process(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "f.json", autograd_profile(steps=4)))
    kernels, ops = trace.events.of(Kind.KERNEL), trace.events.of(Kind.OP)
    assert (len(kernels), len(ops)) == (40, 40)
    assert set(kernels.duration_ns) == {500_000}
    assert set(kernels.device) == {0}


def test_the_old_autograd_profiler_gives_a_busy_share(tmp_path: Path) -> None:
    answer = gpuwise.why([str(write(tmp_path / "f.json", autograd_profile(steps=8)))], gpu="V100 SXM 32GB").to_dict()
    assert answer["busy_fraction"] == pytest.approx(500 / 600, abs=0.02)


def test_begins_and_ends_become_events_with_the_right_length(tmp_path: Path) -> None:
    inner, outer = pair("inner", 120, 130), pair("outer", 100, 200)
    other = pair("other thread", 110, 190, tid=2)
    events = [outer[0], other[0], *inner, outer[1], other[1]]
    trace = read_trace(write(tmp_path / "f.json", events))
    found = {trace.names[name]: length for name, length in zip(trace.events.name, trace.events.duration_ns, strict=True)}
    assert found == {"inner": 10_000, "outer": 100_000, "other thread": 80_000}
    assert trace.losses == ()


def test_begins_without_an_end_are_dropped_and_counted(tmp_path: Path) -> None:
    named = [{**event, "name": "a"} for event in pair("a", 10, 20)]
    events = [named[0], pair("never ended", 12, 0)[0], named[1], pair("", 0, 40)[1], pair("open", 50, 0)[0]]
    trace = read_trace(write(tmp_path / "f.json", {"traceEvents": events}))
    assert [trace.names[name] for name in trace.events.name] == ["a"]
    assert [loss.count for loss in trace.losses] == [3]


def test_a_list_without_its_last_bracket_is_whole(tmp_path: Path) -> None:
    whole = write(tmp_path / "f.json", pair("a", 10, 20) + pair("b", 30, 40)).read_bytes()
    (tmp_path / "f.json").write_bytes(whole.rstrip(b"]") + b",\n")
    trace = read_trace(tmp_path / "f.json")
    assert len(trace.events) == 2
    assert trace.cut is None


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")],
)
@pytest.mark.parametrize("bare", [False, True])
def test_a_byte_order_mark_changes_nothing(mark: bytes, encoding: str, bare: bool, tmp_path: Path) -> None:
    plain = training(steps=3, kernels=3).write(tmp_path / "plain.json")
    content = json.loads(plain.read_bytes())
    text = json.dumps(content["traceEvents"] if bare else content)
    (tmp_path / "marked.json").write_bytes(mark + text.encode(encoding))
    first, second = read_trace(plain), read_trace(tmp_path / "marked.json")
    assert second.events.start_ns.tolist() == first.events.start_ns.tolist()
    assert bare or second.devices == first.devices


def test_long_process_groups_before_the_events_do_not_make_a_trace_a_dump(tmp_path: Path) -> None:
    groups = [{"pg_name": str(number), "ranks": list(range(100))} for number in range(500)]
    head = {"distributedInfo": {"rank": 0, "world_size": 100, "pg_config": groups}}
    whole = {**head, **training(steps=4).document()}
    assert len(json.dumps(head)) > 1 << 16
    assert len(read_trace(write(tmp_path / "f.json", whole)).events.of(Kind.KERNEL)) == 80


def test_shapes_that_are_no_utf8_are_survived(tmp_path: Path) -> None:
    raw = training(steps=4, kernels=10, name=SGEMM).write(tmp_path / "f.json").read_bytes()
    (tmp_path / "f.json").write_bytes(raw.replace(b'"float"', b'"fl\xff\xfeat"', 40))
    answer = gpuwise.why([str(tmp_path / "f.json")])
    json.dumps(answer.to_dict(), allow_nan=False)
    assert str(answer)
