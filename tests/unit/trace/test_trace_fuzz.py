"""Whatever is done to a trace, the answer is an answer or a clear error: never a traceback."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpuwise
from gpuwise.core.errors import GpuwiseError
from gpuwise.questions.why import text as report
from making_traces import Run, nsys, training, xplane

CASES = 500


def _json(folder: Path) -> bytes:
    return training(steps=3, kernels=3, load_us=50.0, copy_us=20.0, sync=True).write(folder / "seed.json").read_bytes()


def _gzip(folder: Path) -> bytes:
    return training(Run(old=True), steps=3, kernels=3, load_us=50.0).write(folder / "seed.json.gz").read_bytes()


def _xplane(folder: Path) -> bytes:
    return xplane(kernels=4)


def _nsys(folder: Path) -> bytes:
    return nsys(folder / "seed.sqlite", kernels=4).read_bytes()


def answers(path: Path) -> None:
    """Ask for everything; only our own errors may come out."""
    failed: GpuwiseError | None = None
    try:
        answer = gpuwise.why([str(path)])
        answer.to_dict()
        report.render(answer)
        report.render_html(answer)
        report.render_markdown(answer)
    except GpuwiseError as error:
        failed = error
    assert failed is None or (str(failed).startswith("error: ") and failed.hint)


def mutated(raw: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, a piece cut out, doubled or put elsewhere, or the end cut off."""
    data = bytearray(raw)
    for _ in range(chance.randint(1, 4)):
        if not data:
            break
        place, other = sorted((chance.randrange(len(data)), chance.randrange(len(data))))
        what = chance.randrange(6)
        if what == 0:
            data[place] = chance.randrange(256)
        elif what == 1:
            del data[place : min(other, place + 200)]
        elif what == 2:
            data[place:place] = data[place : min(other, place + 200)]
        elif what == 3:
            del data[other:]
        elif what == 4:
            data[place : place + 1] = chance.choice(
                [b"NaN", b"-1", b"1e999", b"null", b"{", b"]", b'"', b"\xff", b"99999999999999999999"]
            )
        else:
            data[place : place + 8] = chance.randbytes(8)
    return bytes(data)


@pytest.mark.parametrize("seed", [_json, _gzip, _xplane, _nsys])
def test_mutated_files_give_an_answer_or_an_error(seed: Callable[[Path], bytes], tmp_path: Path) -> None:
    raw, chance, path = seed(tmp_path), random.Random(6), tmp_path / "mutated"  # noqa: S311 (not for secrets)
    for _ in range(CASES):
        path.write_bytes(mutated(raw, chance))
        answers(path)


VALUE = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.lists(st.integers(), max_size=2)
)
NAMES = st.sampled_from(
    ["ProfilerStep#1", "ProfilerStep#2", "volta_sgemm", "ncclKernel", "enumerate(DataLoader)#x.__next__", "cudaLaunchKernel"]
)
CATEGORIES = st.sampled_from(["kernel", "Kernel", "cpu_op", "cuda_runtime", "user_annotation", "gpu_memcpy", "weird"])
ARGUMENTS = st.dictionaries(
    st.sampled_from(["correlation", "device", "stream", "bytes", "grid", "Input Dims", "blocks per SM"]), VALUE
)
TIME = st.floats(0, 1e6) | VALUE
EVENT = st.fixed_dictionaries(
    {"ph": st.sampled_from(["X", "X", "X", "M", "i"]), "cat": CATEGORIES | VALUE, "name": NAMES | VALUE, "ts": TIME, "dur": TIME},
    optional={"pid": VALUE, "tid": VALUE, "args": ARGUMENTS | VALUE},
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(events=st.lists(EVENT, max_size=12))
def test_events_of_any_types_give_an_answer_or_an_error(events: list[object], tmp_path: Path) -> None:
    import json

    path = tmp_path / "made.json"
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    answers(path)
