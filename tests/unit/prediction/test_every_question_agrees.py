"""Every question that predicts a step gives the same answer for the same forty jobs.

The table includes which question applies to which job: a question that refuses all jobs, or skips one it should take, fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import gpuwise
from asking import catalogue_query, predict_query
from gpuwise.advise.jobs import Job as Task
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.questions.common.jobs import Asked, price_jobs, trial_on
from gpuwise.questions.common.machine import images_per_s_of
from gpuwise.questions.common.prediction_types import Prediction
from gpuwise.questions.common.rigs import find_rigs, throughput
from gpuwise.questions.common.runs.versions import versions
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.fit.catalogue import fit_catalogue
from gpuwise.questions.plan.types import PLAIN
from gpuwise.questions.predict.batches import sweep
from gpuwise.questions.sweep.ask import ANY_MODERN_GPU, SweepTask
from gpuwise.questions.sweep.block import block_of, decode
from gpuwise.questions.tune.ask import PowerQuery
from gpuwise.questions.tune.batch import tune_batch
from gpuwise.questions.tune.power import tune_power

CLOSE = 0.001
SAMPLES = 1e6


class Job(NamedTuple):
    """So many samples on each of so many GPUs."""

    model: str
    gpu: str
    count: int
    batch: int
    precision: str
    mode: str = "train"
    phase: str = ""

    @property
    def device(self) -> Gpu:
        return load_catalog().find(self.gpu).gpu

    def asked(self, **more: Any) -> dict[str, Any]:
        """As `predict` is asked."""
        named = {"model": self.model, "gpu": [self.gpu], "gpus": self.count, "batch": str(self.batch)}
        return {**named, "precision": self.precision, "mode": self.mode, "phase": self.phase, **more}


JOBS = [
    # one GPU, from old cards to the newest, of every maker
    Job("resnet50", "RTX 3090", 1, 128, "amp"),
    Job("resnet50", "RTX 3090", 1, 64, "fp32"),
    Job("resnet50", "RTX 4090", 1, 64, "tf32"),
    Job("resnet50", "GTX 1080 Ti", 1, 32, "fp32"),
    Job("resnet50", "Tesla K80", 1, 16, "fp32"),
    Job("resnet50", "H100 SXM 80GB", 1, 256, "amp-bf16"),
    Job("bert-base", "T4", 1, 16, "amp"),
    Job("bert-large", "A100 PCIe 40GB", 1, 8, "bf16"),
    Job("gpt2", "RTX 5090", 1, 8, "amp"),
    Job("vit_base_patch16_224", "B200", 1, 64, "amp"),
    Job("word_lstm", "RTX 2080 Ti", 1, 64, "fp32"),
    Job("mobilenet_v2", "H100 SXM 80GB", 1, 8, "amp"),  # held up by the host
    Job("mnist_cnn", "RTX 4090", 1, 32, "fp32"),  # held up by the host
    Job("resnet50", "MI300X", 1, 64, "amp"),
    Job("resnet50", "Arc B580", 1, 32, "amp"),
    Job("resnet18", "M3 Max (40-core GPU)", 1, 32, "fp32"),
    # two segments of memory: what lies in the slow one costs time
    Job("resnet50", "GTX 970", 1, 32, "fp32"),
    Job("resnet50", "GTX 970", 2, 32, "fp32"),
    Job("resnet18", "GTX 970", 1, 16, "fp32"),
    # laptops
    Job("resnet50", "RTX 2070 Max-Q", 1, 32, "amp"),
    Job("mnist_cnn", "GTX 960M", 1, 64, "fp32"),
    Job("bert-base", "RTX 4060 Laptop", 1, 8, "amp"),
    # CPUs
    Job("resnet50", "Ryzen 7 5800X", 1, 32, "fp32"),
    Job("resnet50", "Core i7-8700K", 1, 32, "fp32"),
    Job("mnist_cnn", "Ryzen 7 5800X", 1, 32, "fp32"),
    # inference
    Job("resnet50", "RTX 3090", 1, 64, "fp16", "infer"),
    Job("llama-2-7b", "RTX 4090", 1, 1, "fp16", "infer", "decode"),
    Job("sd15_unet", "RTX 3060", 1, 1, "fp16", "infer"),
    Job("bert-base", "Ryzen 7 5800X", 1, 4, "fp32", "infer"),
    # several GPUs that average gradients
    Job("resnet50", "RTX 2080 Ti", 4, 64, "amp"),
    Job("bert-large", "RTX 3090", 2, 8, "amp"),
    Job("bert-large", "A100 SXM 80GB", 8, 16, "amp-bf16"),
    Job("gpt2", "RTX 4090", 2, 8, "amp"),
    Job("resnet18", "GTX 1080 Ti", 2, 64, "fp32"),
    Job("mobilenet_v2", "H100 SXM 80GB", 8, 8, "amp"),
    Job("resnet50", "RTX 2070 Max-Q", 2, 16, "amp"),
    Job("resnet50", "RTX 3090", 2, 64, "fp16", "infer"),
    # fp8
    Job("llama-2-7b", "H100 SXM 80GB", 1, 1, "fp8"),
    Job("llama-2-7b", "H100 SXM 80GB", 8, 1, "fp8"),
    Job("bert-large", "RTX 4090", 1, 8, "fp8"),
]


def by_predict(job: Job) -> float:
    return prediction(job).step_s


def prediction(job: Job) -> Prediction:
    return gpuwise.predict(**job.asked()).results[0]


def by_grid(job: Job) -> float:
    found = gpuwise.predict(**job.asked(batch=f"{job.batch},{2 * job.batch}"))
    return next(result.step_s for result in found.results if result.batch == job.batch)


def by_batch_chart(job: Job) -> float:
    """The page's."""
    return sweep(predict_query(**job.asked()), [1, job.batch, 2 * job.batch]).points[1].step_s


def by_fit(job: Job) -> float:
    return gpuwise.fit(**job.asked(), remedies=False).results[0].step_s


def by_fit_of_the_catalogue(job: Job) -> float | None:
    found = fit_catalogue(catalogue_query(**job.asked()))
    return next(row.step_s for row in found.results if row.gpu.name == job.device.name)


def by_which(job: Job) -> float | None:
    """What the user has is an option too; where one GPU is faster than all together, buying as many is. A batch that does not fit
    safely is run in parts there, so it is another job.
    """
    have = [f"{job.count}x {job.device.name}"]
    asked = {"mode": job.mode, "phase": job.phase, "batch": str(job.batch), "precision": job.precision}
    seq = prediction(job).seq  # without one, `which` assumes the shorter sequences of fine-tuning
    answer = gpuwise.which(model=[job.model], have=have, samples=SAMPLES, seq=seq, **asked)
    wanted = (job.device.name, job.count)
    option = next(one for one in answer.every if one.kind != "rent" and (one.gpu.name, one.gpu_count) == wanted)
    choices = option.run.paces[0].choices
    whole = choices.accumulate == 1 and not any(choices.checkpoint) and not choices.adapters
    return option.run.paces[0].step_s if whole else None


def by_plan(job: Job) -> float:
    fixed = {"micro_batch": job.batch, "recompute": "none", "zero": 0, "data": job.count, "scaling": False}
    cluster = f"{job.count}x {job.device.name}"
    answer = gpuwise.plan(job.model, cluster=cluster, batch=job.batch * job.count, precision=job.precision, **fixed)
    plain = [entry for entry in answer.shown if any(PLAIN in label for label in entry.labels)] or list(answer.entries)
    assert plain[0].estimate.plan.is_plain
    return plain[0].estimate.step_s


def by_compare(job: Job) -> float:
    (rig,), _ = find_rigs([f"{job.count}x {job.device.name}"])
    asked = StepOptions(job.model, mode=job.mode, phase=job.phase, precision=job.precision, batch=job.batch)
    return throughput(rig, asked).slowest.step_s


def by_cost(job: Job) -> float:
    run = {"model": job.model, "samples": SAMPLES, "batch": str(job.batch), "precision": job.precision}
    answer = gpuwise.cost(gpu=job.device.name, gpus=job.count, price="1000", watts=100.0, **run)
    assert answer.job is not None
    return answer.job.hours * 3600 / SAMPLES * job.batch * job.count


def by_tune_batch(job: Job) -> float | None:
    points = tune_batch(predict_query(**job.asked())).batches
    return next((point.step_s for point in points if point.batch == job.batch), None)


def by_tune_power(job: Job) -> float:
    watts = f"{job.device.tdp_watts:g}W"
    step = StepOptions(job.model, gpu=job.device.name, batch=job.batch, precision=job.precision, mode=job.mode, phase=job.phase)
    return tune_power(PowerQuery(step=step, limits=watts)).points[-1].step_s


def by_sweep(job: Job) -> float:
    """Of many models on many GPUs."""
    task = SweepTask(
        model=job.model,
        step=StepOptions(job.model, gpu=ANY_MODERN_GPU, precision=job.precision, mode=job.mode, phase=job.phase),
        gpus=(job.device.name, "RTX 3060", "Ryzen 9 5950X"),
        batches=(1, job.batch),
        versions=versions(),
    )
    block = decode(block_of(task))
    assert not block.refusal
    return float(block.array("step_s")[1, 0])


def by_build(job: Job) -> float:
    return job.batch / images_per_s_of(job.device, None)


def whole_memory(job: Job) -> bool:
    """Whether a step fits with room to spare, so that no question runs it in parts."""
    return prediction(job).memory.high_bytes <= job.device.usable_memory_bytes


def is_card(job: Job) -> bool:
    return not job.device.is_cpu


def alone(job: Job) -> bool:
    return job.count == 1


QUESTIONS: dict[Callable[[Job], float | None], Callable[[Job], bool]] = {
    by_grid: lambda job: True,
    by_batch_chart: lambda job: True,
    by_fit: lambda job: True,
    by_fit_of_the_catalogue: lambda job: alone(job) and job.device.curated and is_card(job),
    by_which: whole_memory,
    by_plan: lambda job: job.mode == "train" and is_card(job) and (whole_memory(job) or not alone(job)),
    by_compare: lambda job: True,
    by_cost: lambda job: job.mode == "train",
    by_tune_batch: lambda job: alone(job) and whole_memory(job) and job.batch & (job.batch - 1) == 0,
    by_tune_power: lambda job: alone(job) and is_card(job) and job.device.tdp_watts is not None,
    by_sweep: alone,
    by_build: lambda job: job[:1] + job[2:5] == ("resnet50", 1, 64, "amp") and is_card(job),
}


def test_there_are_forty_jobs() -> None:
    assert len(set(JOBS)) == len(JOBS) == 40


@pytest.mark.parametrize("job", JOBS, ids=lambda job: " ".join(str(part) for part in job if part))
def test_every_question_gives_a_step_the_same_price(job: Job) -> None:
    expected = by_predict(job)
    found = {ask.__name__: ask(job) for ask, takes in QUESTIONS.items() if takes(job)}
    assert len(found) >= 4
    off = {name: seconds for name, seconds in found.items() if seconds is None or abs(seconds / expected - 1) > CLOSE}
    assert not off, f"predict says {expected:.6g} s"


@pytest.mark.parametrize("way", ["lora", "qlora", "checkpoint"])
@pytest.mark.parametrize("name", ["RTX 4090", "A100 PCIe 80GB"])
def test_remedies_and_choices_price_a_way_of_running_alike(way: str, name: str) -> None:
    """LoRA and the like: `fit` tries them as remedies, `which` and `charts` as ways to run a job."""
    gpu = load_catalog().find(name).gpu
    job = Task(model="llama-2-7b", samples=1.0, batch=1, ways=(way,))
    (priced,) = price_jobs([job], [gpu], Asked())
    pace = priced.paces[gpu.name]
    trial = trial_on(job, gpu, Asked())
    assert trial is not None
    assert trial.step_s(pace.choices, pace.batch) == pytest.approx(pace.step_s, rel=CLOSE)
    assert trial.memory(pace.choices, pace.batch).total_bytes == pytest.approx(pace.memory_bytes, rel=CLOSE)


def test_a_step_of_the_users_own_is_told_alike() -> None:
    job = JOBS[1]
    asked = job.asked(measured=[f"{job.gpu}=90ms"])
    own = gpuwise.predict(**asked).results[0]
    assert own.step_s == pytest.approx(0.09)
    assert gpuwise.fit(**asked, remedies=False).results[0].step_s == pytest.approx(0.09)
    assert sweep(predict_query(**asked), [job.batch]).points[0].step_s == pytest.approx(0.09)
    assert tune_batch(predict_query(**asked)).batches[6].step_s == pytest.approx(0.09)
