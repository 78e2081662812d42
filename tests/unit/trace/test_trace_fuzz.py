"""Whatever is done to a file that `why` reads, the answer is an answer or a clear error: never a traceback."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz_mutations import mutated
from fuzz_targets import TARGETS, Target, tried

CASES = 300  # of each reader; `make fuzz` asks for as long as you like
READERS = (
    "traces",
    "old traces",
    "xplane",
    "nsys",
    "rocprof",
    "rocpd",
    "rpd",
    "snapshots",
    "dumps",
    "readings",
    "op tables",
    "execution traces",
)
BY_NAME = {target.name: target for target in TARGETS}


@pytest.mark.parametrize("target", [BY_NAME[name] for name in READERS], ids=lambda target: target.name)
def test_mutated_files_give_an_answer_or_an_error(target: Target, tmp_path: Path) -> None:
    chance = random.Random(6)  # noqa: S311 (not for secrets)
    made = target.seeds(tmp_path)
    for _ in range(CASES):
        tried(target, mutated(chance.choice(made), chance), tmp_path)


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
    {
        "ph": st.sampled_from(["X", "X", "X", "M", "i", "B", "E"]),
        "cat": CATEGORIES | VALUE,
        "name": NAMES | VALUE,
        "ts": TIME,
        "dur": TIME,
    },
    optional={"pid": VALUE, "tid": VALUE, "args": ARGUMENTS | VALUE},
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(events=st.lists(EVENT, max_size=12))
def test_events_of_any_types_give_an_answer_or_an_error(events: list[object], tmp_path: Path) -> None:
    tried(BY_NAME["traces"], json.dumps({"traceEvents": events}).encode(), tmp_path)
