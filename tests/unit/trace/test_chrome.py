"""Chrome traces of every age are read into the same table."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import gpuwise
from gpuwise.core.errors import BadFile
from gpuwise.diagnose.roofline.sized_ops import NAMES
from gpuwise.diagnose.shapes import dims_of
from gpuwise.trace import chunks
from gpuwise.trace.read import find_files, read_trace
from gpuwise.trace.readers.chrome import read_chrome
from gpuwise.trace.sized import CONVOLUTIONS, DUPLICATES, LINEAR
from gpuwise.trace.types import COLUMNS, Kind, Trace
from making_traces import HGEMM, Run, training


def rows(trace: Trace) -> list[tuple[int, str, int, int]]:
    events = trace.events
    names = [trace.names[number] for number in events.name]
    return sorted(zip(events.kind.tolist(), names, events.start_ns.tolist(), events.duration_ns.tolist(), strict=True))


def test_each_kind_of_event_is_kept_with_its_columns(tmp_path: Path) -> None:
    trace = read_trace(training(steps=2, kernels=3, copy_us=100.0).write(tmp_path / "a.json"))
    counts = {kind.name: int((trace.events.kind == kind).sum()) for kind in Kind}
    assert counts["KERNEL"] == 6
    assert counts["MEMCPY"] == 2
    assert counts["RUNTIME"] == 8
    assert counts["OP"] == 6
    assert counts["MARK"] == 4
    kernels = trace.events.of(Kind.KERNEL)
    assert set(kernels.device) == {0}
    assert set(kernels.stream) == {7}
    assert (kernels.blocks_per_sm == 8).all()
    assert set(trace.events.of(Kind.MEMCPY).size_bytes) == {50_000_000}
    assert set(kernels.correlation) <= set(trace.events.of(Kind.RUNTIME).correlation)
    assert trace.devices[0].sm_count == 80
    assert trace.devices[0].capability == (7, 0)


def test_names_of_2021_and_of_today_give_the_same_table(tmp_path: Path) -> None:
    new = read_trace(training(copy_us=50.0, load_us=100.0).write(tmp_path / "new.json"))
    old = read_trace(training(Run(old=True), copy_us=50.0, load_us=100.0).write(tmp_path / "old.json"))
    for kind in (Kind.KERNEL, Kind.MEMCPY, Kind.RUNTIME):
        assert len(new.events.of(kind)) == len(old.events.of(kind)) > 0
        assert (new.events.of(kind).start_ns == old.events.of(kind).start_ns).all()


def test_plain_gzip_and_bare_list_give_the_same_table(tmp_path: Path) -> None:
    run = training()
    plain = rows(read_trace(run.write(tmp_path / "a.json")))
    assert rows(read_trace(run.write(tmp_path / "b.json.gz"))) == plain
    (tmp_path / "c.json").write_text(json.dumps(run.events), encoding="utf-8")
    assert rows(read_trace(tmp_path / "c.json")) == plain
    two = gzip.compress(json.dumps(run.document()).encode()[:5000]) + gzip.compress(json.dumps(run.document()).encode()[5000:])
    (tmp_path / "two_members.gz").write_bytes(two)
    assert rows(read_trace(tmp_path / "two_members.gz")) == plain


@pytest.mark.parametrize("size", [700, 1000, 4096, 10_000])
def test_how_the_file_is_cut_into_pieces_does_not_matter(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = training(load_us=50.0).write(tmp_path / "a.json", metadata={"devices": [{"a": 1}, {"b": 2}]})
    whole = rows(read_chrome(path))
    monkeypatch.setattr(chunks, "_CHUNK_BYTES", size)
    trace = read_chrome(path)
    assert rows(trace) == whole
    assert trace.losses == ()
    assert trace.devices[0].name == "Tesla V100-SXM2-32GB"


def test_names_that_look_like_the_end_of_an_event_are_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_BYTES", 900)
    run = Run()
    for place in range(40):
        run.launch(f'lambda {{a}}, {{"b": [1]}}] }}], "x{place}"', 10.0)
    trace = read_chrome(run.write(tmp_path / "a.json"))
    assert len(trace.events.of(Kind.KERNEL)) == 40
    assert trace.losses == ()


def test_nanoseconds_and_microseconds_are_told_apart(tmp_path: Path) -> None:
    run = training(steps=2)
    expected = read_trace(run.write(tmp_path / "us.json")).events
    for event in run.events:
        event["ts"] = int(event["ts"]) * 1000 + round(event["ts"] % 1 * 1000)
        event["dur"] = int(event["dur"] * 1000)
    found = read_trace(run.write(tmp_path / "ns.json", displayTimeUnit="ms")).events
    assert (found.start_ns == expected.start_ns).all()
    assert (found.duration_ns == expected.duration_ns).all()


def test_base_of_the_clock_behind_the_events_is_added(tmp_path: Path) -> None:
    run = training(Run(begin_us=0.5), steps=2)
    trace = read_trace(run.write(tmp_path / "a.json", baseTimeNanoseconds=1_700_000_000_000_000_000))
    assert trace.events.start_ns.min() == 1_700_000_000_000_000_500


def test_shapes_are_interned(tmp_path: Path) -> None:
    trace = read_trace(training().write(tmp_path / "a.json"))
    assert len(trace.shapes) == 1
    assert (trace.events.of(Kind.OP).shape == 0).all()


def test_rank_and_world_are_read(tmp_path: Path) -> None:
    trace = read_trace(training(Run(rank=3, world_size=8)).write(tmp_path / "a.json"))
    assert (trace.rank, trace.world_size, trace.backend) == (3, 8, "nccl")


def test_tensorflow_chrome_trace_gets_kinds_from_its_lines(tmp_path: Path) -> None:
    titles = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
        {"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "Stream #7(Compute)"}},
        {"ph": "M", "pid": 1, "tid": 3, "name": "thread_name", "args": {"name": "Steps"}},
        {"ph": "M", "pid": 9, "name": "process_name", "args": {"name": "/host:CPU"}},
    ]
    events = [
        {"ph": "X", "pid": 1, "tid": 2, "name": "fusion_1", "ts": 10, "dur": 5},
        {"ph": "X", "pid": 1, "tid": 2, "name": "MemcpyH2D", "ts": 20, "dur": 5},
        {"ph": "X", "pid": 1, "tid": 3, "name": "0", "ts": 0, "dur": 30},
        {"ph": "X", "pid": 9, "tid": 1, "name": "IteratorGetNext", "ts": 1, "dur": 2},
    ]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": titles + events}), encoding="utf-8")
    trace = read_trace(tmp_path / "t.json")
    assert sorted(trace.events.kind.tolist()) == sorted([Kind.KERNEL, Kind.MEMCPY, Kind.STEP, Kind.OP])
    assert set(trace.events.of(Kind.KERNEL).device) == {0}


def test_cut_gzip_keeps_what_is_whole_and_says_so(tmp_path: Path) -> None:
    whole = training().write(tmp_path / "a.json.gz")
    (tmp_path / "cut.gz").write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    trace = read_trace(tmp_path / "cut.gz")
    assert 0 < len(trace.events) < len(read_trace(whole).events)
    assert trace.cut is not None
    assert trace.cut.ragged
    assert "gzip" in trace.cut.where


def test_cut_json_keeps_what_is_whole_and_says_so(tmp_path: Path) -> None:
    text = training().write(tmp_path / "a.json").read_bytes()
    for share in (0.3, 0.5, 0.9):
        (tmp_path / "cut.json").write_bytes(text[: int(len(text) * share)])
        trace = read_trace(tmp_path / "cut.json")
        assert len(trace.events) > 10
        assert trace.cut is not None
        assert trace.cut.ragged
        assert trace.cut.where == "in the middle of an event"


def test_damaged_gzip_keeps_what_came_before(tmp_path: Path) -> None:
    raw = bytearray(training(steps=40, kernels=40).write(tmp_path / "a.json.gz").read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    raw[len(raw) // 2 + 1] ^= 0xFF
    (tmp_path / "bad.gz").write_bytes(raw)
    trace = read_trace(tmp_path / "bad.gz")
    assert len(trace.events) > 0


def test_one_broken_event_costs_one_event(tmp_path: Path) -> None:
    run = training(steps=2, kernels=5)
    text = run.write(tmp_path / "a.json").read_text(encoding="utf-8")
    before = len(read_trace(tmp_path / "a.json").events)
    broken = text.replace('"dur": 500.0,', '"dur": 5..0.0,', 1)
    (tmp_path / "b.json").write_text(broken, encoding="utf-8")
    trace = read_trace(tmp_path / "b.json")
    assert len(trace.events) == before - 1
    assert trace.losses[0].count == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"dur": 500.0,', '"dur": NaN,'),
        ('"dur": 500.0,', '"dur": null,'),
        ('"dur": 500.0,', '"dur": -5,'),
        ('"dur": 500.0,', ""),
        ('"dur": 500.0,', '"dur": Infinity,'),
        ('"dur": 500.0,', '"dur": "oops",'),
        ('"dur": 500.0,', '"dur": 1e300,'),
    ],
)
def test_impossible_durations_are_counted_not_used(old: str, new: str, tmp_path: Path) -> None:
    text = training(steps=2, kernels=5).write(tmp_path / "a.json").read_text(encoding="utf-8")
    before = len(read_trace(tmp_path / "a.json").events)
    (tmp_path / "b.json").write_text(text.replace(old, new, 1), encoding="utf-8")
    trace = read_trace(tmp_path / "b.json")
    assert len(trace.events) == before - 1
    assert sum(loss.count for loss in trace.losses) == 1


def test_unusual_types_are_taken_for_what_they_can_be(tmp_path: Path) -> None:
    text = training(steps=2, kernels=5).write(tmp_path / "a.json").read_text(encoding="utf-8")
    before = rows(read_trace(tmp_path / "a.json"))
    changed = text.replace('"dur": 500.0,', '"dur": "500.0",').replace('"stream": 7,', '"stream": "7",')
    (tmp_path / "b.json").write_text(changed, encoding="utf-8")
    assert rows(read_trace(tmp_path / "b.json")) == before


def test_broken_utf8_in_shapes_is_replaced(tmp_path: Path) -> None:
    raw = training().write(tmp_path / "a.json").read_bytes()
    (tmp_path / "b.json").write_bytes(raw.replace(b'"float"', b'"fl\xffoat"').replace(b'"c10::Half"', b'"c10::\xffHalf"'))
    whole, broken = (read_trace(tmp_path / name).shapes for name in ("a.json", "b.json"))
    assert [dims_of(shape)[0] for shape in broken] == [dims_of(shape)[0] for shape in whole]
    assert all("\N{REPLACEMENT CHARACTER}" in shape.decode() for shape in broken)
    assert len(broken) == 1
    assert gpuwise.why([str(tmp_path / "b.json")]).to_dict()["verdict"]


@pytest.mark.parametrize("broken", [b"[[\xff]]", b'["\xff"]', b"[" * 5000, b"[[4, 2]", b"{}", b"3"])
def test_sizes_that_cannot_be_read_are_no_sizes(broken: bytes) -> None:
    assert dims_of(broken + b'|["float"]') == ([], ["float"])


def test_lone_backslashes_and_broken_utf8_do_not_cost_the_batch(tmp_path: Path) -> None:
    raw = training(steps=2, kernels=5).write(tmp_path / "a.json").read_bytes()
    changed = raw.replace(HGEMM.encode(), b"C:\\Users\\x" + b"\xff\xfe", 2)
    (tmp_path / "b.json").write_bytes(changed)
    trace = read_trace(tmp_path / "b.json")
    assert len(trace.events) == len(read_trace(tmp_path / "a.json").events)


def test_a_million_letters_are_cut(tmp_path: Path) -> None:
    run = training(steps=2, kernels=3)
    run.launch("x" * 1_000_000, 10.0)
    trace = read_trace(run.write(tmp_path / "a.json"))
    assert max(len(name) for name in trace.names) <= 2000


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"\x89PNG\r\n\x1a\n" + b"x" * 100, "not a profiler trace"),
        (b"hello", "not a profiler trace"),
        (b"{}", "contains no traceEvents"),
        (b'{"a": 1}', "contains no traceEvents"),
        (b'[1, 2, "x", null]', "a list without events"),
        (b'{"traceEvents": [1, 2]}', "a list without events"),
        (gzip.compress(b"hello", mtime=0), "not a profiler trace"),
        (b"PK\x03\x04" + b"\0" * 50, "not a profiler trace"),
    ],
)
def test_a_file_of_another_kind_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(BadFile, match=says):
        read_trace(tmp_path / "f")


def test_a_small_file_without_events_is_counted_in_bytes(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"{}")
    with pytest.raises(BadFile) as refused:
        read_trace(tmp_path / "f")
    assert refused.value.looked_in == "all of its 2 bytes, as JSON"


@pytest.mark.parametrize("around", [b"[%s]", b'{"traceEvents": [%s]}'])
def test_a_whole_list_that_ends_with_something_else_is_not_cut_off(around: bytes, tmp_path: Path) -> None:
    event = b'{"ph": "X", "ts": 0, "dur": 1, "name": "k", "cat": "kernel", "pid": 0, "tid": 0}'
    (tmp_path / "f").write_bytes(around % (event + b", " + event + b", 1"))
    trace = read_trace(tmp_path / "f")
    assert len(trace.events) == 2
    assert trace.cut is None


def test_a_gzip_bomb_is_refused_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwise.trace.source._SWELL_BYTES", 1 << 22)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * (1 << 26)))
    with pytest.raises(BadFile, match="decompresses to more than"):
        read_trace(tmp_path / "bomb.gz")


def test_a_file_without_end_of_an_event_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_BYTES", 1000)
    monkeypatch.setattr(chunks, "_LARGEST_EVENT_BYTES", 10_000)
    (tmp_path / "a.json").write_bytes(b'{"traceEvents": [' + b'{"name": "' + b"x" * 50_000)
    with pytest.raises(BadFile, match="an event that does not end"):
        read_trace(tmp_path / "a.json")


def test_an_event_without_end_is_searched_only_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    search = chunks._last_boundary
    monkeypatch.setattr(chunks, "_last_boundary", lambda text: sizes.append(len(text)) or search(text))
    monkeypatch.setattr(chunks, "_CHUNK_BYTES", 1000)
    monkeypatch.setattr(chunks, "_LARGEST_EVENT_BYTES", 1_000_000)
    (tmp_path / "a.json").write_bytes(b'{"traceEvents": [' + b'{"name": "' + b"x" * 2_000_000)
    with pytest.raises(BadFile, match="an event that does not end"):
        read_trace(tmp_path / "a.json")
    assert sum(sizes) < 5_000_000  # each search covers twice as much as the one before


def test_threads_with_the_same_number_in_two_processes_are_two_threads(tmp_path: Path) -> None:
    times = {"ph": "X", "cat": "cpu_op", "dur": 5}
    events = [{**times, "name": "a", "pid": pid, "tid": tid, "ts": 10 * tid} for pid in (1, "two") for tid in (7, 8)]
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    table = read_chrome(tmp_path / "a.json").events
    assert len(set(table.thread.tolist())) == 4
    assert len(set(zip(table.process.tolist(), table.thread.tolist(), strict=True))) == 4
    assert sorted(table.process.tolist()) == [0, 0, 1, 1]


def test_only_ops_that_tell_their_sizes_have_a_shape(tmp_path: Path) -> None:
    told = [{}, {"Input Dims": []}, {"Input Dims": [[2, 3]], "Input type": ["float"]}]
    common = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "dur": 5}
    events = [{**common, "name": "aten::mm", "ts": ts, "args": args} for ts, args in enumerate(told)]
    given = {"Input Dims": [[2, 3]], "Input type": ["float"], "Concrete Inputs": ["[1, 1]"]}
    events += [{**common, "name": name, "ts": 9, "args": given} for name in ("aten::mm", "aten::conv2d")]
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    trace = read_chrome(tmp_path / "a.json")
    shapes = [trace.shapes[number] if number >= 0 else b"" for number in trace.events.shape.tolist()]
    plain = b'[[2, 3]]|["float"]'
    assert shapes == [b"", b"", plain, plain, plain + b'|["[1, 1]"]']


def test_files_folders_and_patterns_are_found(tmp_path: Path) -> None:
    for name in ("b.json", "a.json.gz", "c.txt"):
        training(steps=2).write(tmp_path / name)
    assert [path.name for path in find_files([str(tmp_path)])] == ["a.json.gz", "b.json"]
    assert [path.name for path in find_files([str(tmp_path / "*.json")])] == ["b.json"]
    assert len(find_files([str(tmp_path / "b.json"), str(tmp_path / "b.json")])) == 1
    with pytest.raises(BadFile, match="no file matches"):
        find_files([str(tmp_path / "*.nothing")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadFile, match="contains no trace"):
        find_files([str(tmp_path / "empty")])


def test_table_is_in_order_of_start_with_parents_first(tmp_path: Path) -> None:
    events = read_trace(training(load_us=100.0).write(tmp_path / "a.json")).events
    steps = np.diff(events.start_ns)
    assert (steps >= 0).all()
    same = steps == 0
    assert (np.diff(events.duration_ns)[same] <= 0).all()


def test_fractions_of_a_microsecond_are_rounded_to_the_nearest_nanosecond(tmp_path: Path) -> None:
    """0.29 and 1.001 are a little less in binary than on paper: cut off, they would lose a nanosecond."""
    run = Run(begin_us=0.0)
    for start, duration in ((10.29, 0.29), (20.001, 1.001), (30.0, 4.999)):
        run.span("kernel", HGEMM, start, duration, device=0, stream=7, correlation=1)
    events = read_trace(run.write(tmp_path / "a.json")).events
    assert events.start_ns.tolist() == [10_290, 20_001, 30_000]
    assert events.duration_ns.tolist() == [290, 1_001, 4_999]


@pytest.mark.parametrize(
    ("name", "warp", "vendor"),
    [
        ("NVIDIA A100-SXM4-80GB", 32, "NVIDIA"),
        ("Tesla V100-SXM2-32GB", None, "NVIDIA"),
        ("AMD Instinct MI210", None, "AMD"),
        ("", 64, "AMD"),  # ROCm often leaves the name out; its wavefronts are 64 wide
        ("", 32, "NVIDIA"),
    ],
)
def test_the_vendor_is_told_by_name_or_by_the_width_of_a_warp(name: str, warp: int | None, vendor: str, tmp_path: Path) -> None:
    described = {"id": 0, "name": name, "numSms": 104} | ({} if warp is None else {"warpSize": warp})
    (device,) = read_trace(training(Run(gpu=described), steps=2).write(tmp_path / "a.json")).devices
    assert (device.vendor, device.sm_count) == (vendor, 104)


@pytest.mark.parametrize(
    ("category", "kind"),
    [
        ("cuda_runtime", Kind.RUNTIME),
        ("cuda_driver", Kind.RUNTIME),  # Triton launches through the driver
        ("hip_runtime", Kind.RUNTIME),
        ("Runtime", Kind.RUNTIME),
        ("gpu_memset", Kind.MEMSET),
        ("user_annotation", Kind.MARK),
        ("gpu_user_annotation", Kind.DEVICE_MARK),
        ("something new", Kind.OTHER),
    ],
)
def test_categories_of_profilers_old_and_new_are_known(category: str, kind: Kind, tmp_path: Path) -> None:
    run = Run()
    run.span(category, "cuLaunchKernel", 1.0, 2.0, correlation=5)
    (row,) = read_trace(run.write(tmp_path / "a.json")).events.of(kind).correlation
    assert row == (5 if kind in (Kind.RUNTIME, Kind.MEMSET) else -1)


def test_rows_chosen_twice_have_every_column_of_the_table(tmp_path: Path) -> None:
    events = read_trace(training(steps=2, kernels=3, copy_us=100.0).write(tmp_path / "a.json")).events
    odd = events.where(np.arange(len(events)) % 2 == 1)
    few = odd.where(np.array([5, 0, 3]))
    assert (len(odd), len(few)) == (len(events) // 2, 3)
    for name in COLUMNS:
        assert np.array_equal(getattr(few, name), getattr(events, name)[[11, 1, 7]], equal_nan=True)
    assert few.end_ns.tolist() == events.end_ns[[11, 1, 7]].tolist()


def test_the_layout_of_a_file_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = {"ph": "X", "pid": "host \u00e9", "tid": None, "ts": 5.5, "dur": 7, "args": {"deep": [{"ts": 1, "args": {}}, "},  {"]}}
    named = [
        {**odd, "name": 'say "}, {" \\ \u4e2d\n'},
        {**odd, "cat": "cpu_op", "name": "x" * 3000},
        {**odd, "cat": None, "name": 7},
    ]
    sized = {"Input Dims": [[2, [3]], "é"], "Input type": ["float"], "Concrete Inputs": ['"', "\\"]}
    ops = [{**odd, "cat": "cpu_op", "name": name, "args": sized} for name in ("aten::mm", "aten::view", "aten::conv2d")]
    document = {**training(steps=2, kernels=3, copy_us=9.0).document()}
    document["traceEvents"] = [*named, *document["traceEvents"], *ops, {"ph": "i", "ts": 3}, {**odd, "args": None}]
    dense = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    layouts = {
        "dense": dense,
        "escaped": json.dumps(document),
        "indented": json.dumps(document, indent=3),
        "windows": json.dumps(document, indent=1).replace("\n", "\r\n"),
        "tabs": json.dumps(document, indent="\t", separators=(" ,", " : ")),
        "reversed": json.dumps({**document, "traceEvents": [dict(reversed(one.items())) for one in document["traceEvents"]]}),
        "cut": dense.partition('"args":null}')[0] + '"args":null},{"ph":"X","na',
    }
    found = {}
    for size in (1 << 13, 1 << 20):
        monkeypatch.setattr(chunks, "_CHUNK_BYTES", size)
        for name, text in layouts.items():
            (tmp_path / "a.json").write_text(text, encoding="utf-8", newline="")
            trace = read_chrome(tmp_path / "a.json")
            events, shapes = trace.events, (*trace.shapes, b"")
            columns = (events.kind, events.name, events.start_ns, events.duration_ns, events.thread, events.correlation)
            sizes = [(dims_of(shapes[number]), shapes[number].count(b"|")) for number in events.shape.tolist()]
            found[name, size] = [trace.names, len(trace.losses), sizes, *(column.tolist() for column in columns)]
    assert all(one == found["dense", 1 << 20] for one in found.values()), [
        key for key in found if found[key] != found["dense", 1 << 20]
    ]
    assert len(events) == 33


def test_sizes_are_kept_for_every_op_that_is_priced_and_for_no_other(tmp_path: Path) -> None:
    args = {"Input Dims": [[2, 3]], "Input type": ["float"]}
    names = sorted({*NAMES, *CONVOLUTIONS, LINEAR, *DUPLICATES})
    events = [{"ph": "X", "cat": "cpu_op", "name": name, "ts": 9, "dur": 5, "args": args} for name in [*names, "aten::view"]]
    (tmp_path / "a.json").write_text(json.dumps(events), encoding="utf-8")
    assert read_chrome(tmp_path / "a.json").events.shape.tolist() == [0] * len(names) + [-1]
