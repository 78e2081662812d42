"""Many models in one process: a model that fails, hangs or dies affects no other."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from gpuwise.core.errors import GpuwiseError
from gpuwise.workload.capture.many import capture_many
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.types import Settings, Workload
from gpuwise.workload.store import cache
from unit.workload.test_files import tiny

MODELS = """
import os, time
from torch import nn

def good():
    return nn.Sequential(nn.Linear(4, 4))

def raises():
    raise ValueError("not today")

def dies():
    os._exit(7)

def hangs():
    open(__file__ + ".reached", "w").close()
    time.sleep(600)
"""


def test_what_is_kept_needs_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "version", lambda package: "1.0")
    monkeypatch.setattr("subprocess.Popen", None)
    request = Request(model="timm:a", batch=16)
    cache.keep(request, tiny(model="timm:a"))
    ((asked, answer),) = capture_many([request])
    assert asked is request
    assert isinstance(answer, Workload)
    assert answer.batch == 16


@pytest.mark.slow
def test_a_failing_model_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("GPUWISE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "models.py"
    path.write_text(MODELS, encoding="utf-8")
    names = ["good", "raises", "good", "dies", "good", "hangs", "good"]
    requests = [Request(model=f"{path}:{name}") for name in names]
    answers = list(capture_many(requests, timeout_s=24))  # a busy machine needs more than 8 s to import torch twice
    assert [request for request, _ in answers] == requests
    found = dict(zip(range(len(names)), (answer for _, answer in answers), strict=True))
    assert [isinstance(found[place], Workload) for place in found] == [name == "good" for name in names]
    assert all(isinstance(found[place], GpuwiseError) for place in (1, 3, 5))
    assert "not today" in str(found[1])
    assert (tmp_path / "models.py.reached").exists()  # the model took too long, not the start
    assert not (tmp_path / "cache").exists()  # code of the user is never kept


def test_timms_benchmarks_merge_parallel_branches_before_inference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its results list 2.85 million parameters for this model, which has 3.40 million as it is trained."""
    for package in ("torch", "torchvision", "timm"):
        if find_spec(package) is None:
            pytest.skip(f"capturing a timm model needs {package}")
    monkeypatch.setenv("GPUWISE_CACHE", str(tmp_path))
    settings = Settings(mode="infer", precision="fp32", optimizer="none")
    requests = [Request(model="timm:ghostnetv3_050", variant=variant, settings=settings) for variant in ("", "fast-norm")]
    plain, merged = (answer for _, answer in capture_many(requests))
    assert isinstance(plain, Workload)
    assert isinstance(merged, Workload)
    assert (round(plain.parameters / 1e6, 2), round(merged.parameters / 1e6, 2)) == (3.40, 2.85)
