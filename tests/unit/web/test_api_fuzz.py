"""Fuzzes the API with requests generated from its own schema: no response may be a server error.

`GPUWISE_FUZZ=300` sends every route 300 requests; the default keeps `make test` short.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from serving import Server, served

schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis")
pytest.importorskip("fastapi", reason="the page needs gpuwise[web]")

from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
EXAMPLES = int(os.environ.get("GPUWISE_FUZZ", "15"))
ONCE = ("/api/accuracy", "/api/machine")  # answers that never change
# Texts that get past the first check, so that what lies behind is asked too.
KNOWN: dict[str, list[Any]] = {
    "model": ["resnet50", "bert-base", "gpt2", "llama-2-7b", "word_lstm", "mnist_cnn", "sd15", "hf:gpt2", "a.py:Net"],
    "gpu": [
        "RTX 3090",
        "A100 PCIe 40GB",
        "GTX 970",
        "K80",
        "RX 7900 XTX",
        "cpu",
        "name=Foo,arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=500GB/s",
    ],
    "names": ["RTX 3090", "T4", "RTX 2070 Max-Q", "\ud800"],
    "have": ["GTX 1080 Ti", "2x T4", "0x T4"],
    "task": ["vision", "llm-finetune", "kaggle"],
    "precision": ["fp32", "amp", "bf16", "fp8", "auto"],
    "mode": ["train", "infer"],
    "phase": ["decode", "prefill"],
    "batch": ["1", "auto", "0", "-3", "99999999999", "2147483647", "1e9"],
    "optimizer": ["adam", "sgd"],
    "power_limit": ["200W", "1W", "70%"],
    "measured": ["RTX 3090=412ms", "RTX 3090=0s"],
    "price": ["RTX 3090=700", "700", "-1"],
    "tariff": ["200=0.10,600=0.44", "1=nan"],
    "currency": ["EUR=1.08", "EUR=0"],
    "deadline": ["3 days", "12h", "-1h"],
    "psu": ["1000", "1600 platinum", "0"],
    "cluster": ["2x8xH100 SXM 80GB", "8xA100 SXM 80GB", "0x8xH100"],
    "network": ["100Gbit", "0Gbit"],
}


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """Most texts become ones that mean something."""
    if not isinstance(body, dict):
        return body
    return {name: _known(name, value) for name, value in body.items()}


def _known(name: str, value: Any) -> Any:
    choices = KNOWN.get(name)
    if choices is None:
        return value
    if isinstance(value, str):
        return choices[sum(value.encode("utf-8", "replace")) % len(choices)] if len(value) % 8 else value
    return [_known(name, entry) for entry in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("uploads")) as running:
        yield running


def _operations() -> list[Any]:
    from gpuwise.surfaces.web.app import create_app

    described = schemathesis.openapi.from_dict(create_app().openapi()).exclude(path=list(ONCE))
    return [found.ok() for found in described.get_all_operations()]


@pytest.mark.parametrize("operation", _operations(), ids=lambda operation: operation.label)
def test_no_question_is_a_fault_of_the_server(server: Server, operation: Any) -> None:
    asked: Counter[int] = Counter()

    @settings(
        max_examples=EXAMPLES, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None
    )
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        answer = case.call(base_url=server.address, timeout=180)
        asked[answer.status_code] += 1
        assert answer.status_code < 500, (case.body, answer.text)
        assert answer.headers["content-type"][0].startswith("application/json"), answer.headers

    ask()
    print(operation.label, dict(asked))
    assert sum(asked.values()) >= min(EXAMPLES, 1)
