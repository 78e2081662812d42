"""Every task is a mix that can be run: known models, sizes, ways, and a GPU it fits."""

from __future__ import annotations

import pytest

from gpuwise.advise.jobs import WAYS, find_task, tasks, ways_on
from gpuwise.core.errors import UnknownName
from gpuwise.hardware.catalog import load_catalog
from gpuwise.questions.common.jobs import Asked, price_jobs
from gpuwise.workload.store import zoo

ASKED_FOR = "learning kaggle vision nlp llm-finetune llm-inference image-generation rnn speech research".split()
EVERY_JOB = [(name, job) for name, task in tasks().items() for job in task.jobs]


def test_every_task_that_was_asked_for_is_there() -> None:
    assert list(tasks()) == ASKED_FOR


@pytest.mark.parametrize(("task", "job"), EVERY_JOB, ids=[f"{name} {job.model} {job.phase}" for name, job in EVERY_JOB])
def test_a_job_says_all_that_is_needed(task: str, job: object) -> None:
    found = next(one for one in tasks()[task].jobs if one is job)
    assert zoo.has(found.model)
    assert found.samples > 0
    assert found.mode in ("train", "infer")
    assert found.note
    assert set(found.ways) <= set(WAYS)


@pytest.mark.parametrize("task", ASKED_FOR)
def test_a_task_runs_on_a_large_gpu_and_on_a_card_people_have(task: str) -> None:
    gpus = [gpu for gpu in load_catalog().curated if gpu.name in ("H100 SXM 80GB", "RTX 3090")]
    priced = price_jobs(tasks()[task].jobs, gpus, Asked())
    for found in priced:
        assert set(found.paces) == {gpu.name for gpu in gpus}
        assert all(pace.fits for pace in found.paces.values())
        assert found.paces["H100 SXM 80GB"].samples_per_s > found.paces["RTX 3090"].samples_per_s


@pytest.mark.parametrize("text", ["LLM-finetune", "llm finetune", "llm_finetune"])
def test_case_and_spacing_are_forgiven(text: str) -> None:
    assert find_task(text).name == "llm-finetune"


def test_an_unknown_task_is_refused_with_those_that_exist() -> None:
    with pytest.raises(UnknownName, match="unknown task 'visoin'") as refusal:
        find_task("visoin")
    assert "`vision`" in (refusal.value.hint or "")
    assert "kaggle" in (refusal.value.known or "")


def test_ways_are_what_a_gpu_can_do() -> None:
    gpus = {gpu.name: gpu for gpu in load_catalog().curated}
    old, new = gpus["GTX 1080 Ti"], gpus["RTX 4090"]
    assert [one.precision for one in ways_on(old, "usual", mode="train")] == ["fp32"]
    assert [one.precision for one in ways_on(new, "usual", mode="train")] == ["amp"]
    assert [one.precision for one in ways_on(new, "usual", mode="train", precision="auto")] == ["amp", "amp-bf16", "tf32", "fp32"]
    assert ways_on(old, "usual", mode="train", precision="bf16") == ()
    assert ways_on(new, "qlora", mode="train")[0].adapters == "qlora"
