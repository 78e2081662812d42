"""Every parser of user input gives an answer or a clear error with a hint for broken inputs, never a traceback.

Some 3,000 inputs in all, so that `make test` stays short; `make release` tries 20,000, and `make fuzz` continues for as long as
you like.
"""

from __future__ import annotations

import random
import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fuzz_mutations import mutated
from fuzz_targets import TARGETS, Target, tried

pytestmark = pytest.mark.filterwarnings("ignore")
SLOW = ("page", "measurements", "parquet", "workloads", "traces", "names", "typed GPUs", "clusters", "sets of GPUs")
FILES = {"parquet": "pyarrow", "page": "pydantic"}


@pytest.fixture(autouse=True)
def _needs(target: Target) -> None:
    if target.name in FILES:
        pytest.importorskip(FILES[target.name], reason=f"{target.name} needs it")


@cache
def _seeds(target: Target) -> list[bytes]:
    with tempfile.TemporaryDirectory(prefix="gpuwise-seeds-") as folder:
        return target.seeds(Path(folder))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_what_is_right_is_answered(target: Target, tmp_path: Path) -> None:
    for seed in _seeds(target)[:: 5 if len(_seeds(target)) > 20 else 1]:
        found = target.ask(seed, tmp_path)
        assert target.name != "page" or found == 200, seed


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_what_is_broken_is_answered_or_refused_in_words(target: Target, tmp_path: Path) -> None:
    @settings(
        max_examples=16 if target.name in SLOW else 40,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        database=None,
    )
    @given(chance=st.integers(0, 2**32))
    def ask(chance: int) -> None:
        maker = random.Random(chance)  # noqa: S311 (not for secrets)
        tried(target, mutated(maker.choice(_seeds(target)), maker), tmp_path)

    ask()


@pytest.mark.parametrize("target", [target for target in TARGETS if target.name not in SLOW], ids=lambda target: target.name)
@settings(
    max_examples=15,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
)
@given(data=st.binary(max_size=200) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_are_answered_or_refused_in_words(target: Target, tmp_path: Path, data: bytes) -> None:
    tried(target, data, tmp_path)
