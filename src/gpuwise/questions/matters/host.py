"""Topics about the rest of the machine: CPU, RAM, disks, operating system."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpuwise.box.parts import find_cpu_family
from gpuwise.core.text import the
from gpuwise.core.units import GIB, format_si
from gpuwise.hardware.machines import find_host, hosts, loaders
from gpuwise.questions.common.step import takes_images
from gpuwise.questions.matters.case import Case, MattersCase
from gpuwise.questions.matters.types import Matter
from gpuwise.step.time.setting import images_per_s, workers_for

__all__ = ["OtherCpu", "cpu", "other_cpu", "ram_size", "ram_speed", "ssd", "windows_wsl"]

_JPEG_BYTES = 110e3  # an ImageNet photograph; 1.28 million of them are about 140 GB
_DISKS = {"a SATA SSD": 500e6, "an NVMe SSD": 3e9}  # bytes a second, one reader
_HARD_DISK_BYTES_PER_S = 150e6  # in order
_HARD_DISK_FILES_PER_S = 100.0  # in random order: about 10 ms to move the heads and wait for the sector
_GUIDE = "a guide to hardware for deep learning (2015, 2018)"
_PHOTO_BYTES = 3 * 128 * 128 * 2
_NOTICED = 0.05  # %: less rounds to 0.0
_OLD = "old quad-core"
_WSL_LAUNCH = 2.0
_PAIRS_GB = (16, 32, 64, 96, 128, 192, 256)  # pairs of memory modules that are sold
_PASSES = 3.0  # of inputs through the host's memory: written by a worker, read and written again when collected into a batch
_DDR4_2133, _DDR4_3200 = 34.1e9, 51.2e9  # bytes a second of two channels


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherCpu:
    """The CPU to compare with a current desktop CPU: the user's own, or an old one."""

    name: str  # with its article
    host: str
    core_count: int


def other_cpu(asked: str) -> OtherCpu:
    """The CPU that the user names, with the cores of its family or class; without a name, a quad-core of 2013."""
    if not asked:
        return OtherCpu(name="a 2013 quad-core", host=_OLD, core_count=find_host(_OLD).core_count)
    family = find_cpu_family(asked)
    cores = family.core_count if family else find_host(asked).core_count
    return OtherCpu(name=f"a {asked} CPU" if asked in hosts() else the(asked), host=asked, core_count=cores)


def cpu(case: MattersCase) -> Matter:
    """The user's CPU, or an old one, in place of a current one."""
    own = other_cpu(case.asked.cpu)
    slower = 100 * (1 - case.seconds(cpu="desktop") / case.seconds(cpu=own.host))
    decodes = _takes_photographs(case)
    loss = f"{slower:.1f}% slower" if slower >= _NOTICED else "no slower"
    ready = " if the data is already decoded" if decodes else ""
    jpegs = _describe_decoding(case, own) if decodes else ""
    return Matter(
        topic="cpu",
        question="Is my CPU fast enough?",
        value=max(0.0, slower),
        unit=f"% slower with {own.name}" + (_describe_headline(case, own) if decodes else ""),
        answer=f"With {own.name} instead of a current desktop CPU, the step is {loss}{ready}.{jpegs}",
        how="the host launches every op of the step; this costs time only where it does not overlap with GPU work",
        source=f"computed; {_GUIDE} reports a loss of 1 to 10% for a CPU from 2007, and recommends two threads per GPU",
        unless="the model is small; the host then limits the speed",
    )


def _describe_headline(case: MattersCase, own: OtherCpu) -> str:
    """What the loss is for, and that of JPEGs where these cores decode too few of them."""
    times = case.held * case.step().samples_per_s / images_per_s(loaders()["pillow"], find_host(own.host), own.core_count)
    return " on decoded data" + (f", {times:.1f} times as long on JPEGs" if times > 1 else "")


def _describe_decoding(case: MattersCase, own: OtherCpu) -> str:
    """How many cores JPEG decoding needs, as `predict --image-decode` and `build` count it."""
    loader, rate = loaders()["pillow"], case.held * case.step().samples_per_s
    cores = workers_for(loader, find_host("desktop"), rate)
    needs = f"{cores:.0f} current cores with Pillow" if cores < math.inf else "more cores than one process can use with Pillow"
    reached = images_per_s(loader, find_host(own.host), own.core_count)
    times = rate / reached
    on = f" on {case.held} GPUs" if case.held > 1 else ""
    enough = (
        f"so training takes {times:.1f} times as long, unless you decode with a faster library or store smaller images"
        if times > 1
        else "which is enough"
    )
    return (
        f" JPEGs must also be decoded. Keeping up with training ({rate:,.0f} images/s{on}) takes {needs}. "
        f"The {own.core_count} cores of {own.name} decode {reached:,.0f} images/s, {enough}. "
        "See `gpuwise predict --image-decode`."
    )


def ram_size(case: Case) -> Matter:
    """How much memory the machine needs."""
    largest = case.gpu.memory_bytes / GIB
    alone = case.count == 1
    several = f"and RAM equal to the memory of all GPUs ({largest * case.count:.0f} GiB for {case.count}) is plenty"
    least, most = _modules_gb(largest), _modules_gb(largest * case.count)
    buy = f" Memory is sold in pairs of modules, so buy {least} GB" + (f", or {most} GB to have plenty." if most > least else ".")
    cache = "and more helps only as a cache for the dataset"
    return Matter(
        topic="ram-size",
        question="How much RAM do I need?",
        value=largest * case.count,
        unit="GiB is enough for one GPU" if alone else f"GiB is plenty for {case.count} GPUs, {largest:.0f} GiB is enough",
        answer=(
            f"RAM equal to the memory of one GPU ({largest:.0f} GiB) is enough, {cache if alone else several}."
            + ("" if alone else " More RAM alone does not speed anything up.")
            + buy
        ),
        how="a checkpoint passes through RAM on its way to the GPU, and data loaders keep a few batches there",
        source=f"{_GUIDE} recommends RAM equal to at least the memory of the largest GPU, and ideally to that of all GPUs",
        unless="you offload weights or optimizer states to the host, or keep the whole dataset in memory",
    )


def _modules_gb(gib: float) -> int:
    """The smallest usual pair of memory modules with at least so much."""
    return next((size for size in _PAIRS_GB if size >= gib), 2 * _PAIRS_GB[-1] * math.ceil(gib / _PAIRS_GB[-1] / 2))


def ram_speed(case: MattersCase) -> Matter:
    """Faster memory modules."""
    traffic = _PASSES * case.input_bytes()
    slow, fast = (case.seconds(link_bytes_per_s=rate / _PASSES) for rate in (_DDR4_2133, _DDR4_3200))
    return Matter(
        topic="ram-speed",
        question="Does faster RAM help?",
        value=100 * (slow / fast - 1),
        unit="% faster with DDR4-3200 than with DDR4-2133",
        answer=f"It makes the step {100 * (slow / fast - 1):.2f}% faster, because RAM traffic overlaps with the step.",
        how=f"each step moves {format_si(traffic, 'B')} through RAM while the GPU works",
        source=f"computed; {_GUIDE} reports 0 to 0.5%",
        unless="the model runs on the CPU, or you offload weights to the host",
    )


def ssd(case: MattersCase) -> Matter:
    """A fast disk for the data set."""
    rate = case.held * case.step().samples_per_s
    images = _takes_photographs(case)
    size = _JPEG_BYTES if images else case.input_bytes() / case.step().batch
    need = rate * size
    heads = _describe_hard_disk(rate if images else 0.0, need)
    enough = next((name for name, speed in _DISKS.items() if speed >= need), "RAM or an array of disks")
    what = f"{rate:,.0f} JPEGs of 110 kB per second" if images else f"{rate:,.0f} samples of {format_si(size, 'B')} per second"
    return Matter(
        topic="ssd",
        question="Do I need a fast disk?",
        value=need / 1e6,
        unit=f"MB/s to read; {enough} is enough",
        answer=f"{what} amount to {need / 1e6:,.0f} MB/s, and {enough} is fast enough. {heads} "
        "A dataset that fits in RAM is read only once.",
        how="the samples per second of this step are multiplied by the sample size",
        source="computed; an ImageNet photo is about 110 kB; we assume that a SATA SSD and an NVMe SSD read 500 and 3,000 MB/s, "
        "and that a hard disk reads 150 MB/s in order or 100 files/s in random order",
        unless="the dataset is on a network drive, where each file takes much longer to open",
    )


def _describe_hard_disk(files_per_s: float, need: float) -> str:
    """Return what a hard disk would do to training that reads this many shuffled files and bytes per second."""
    times = max(files_per_s / _HARD_DISK_FILES_PER_S, need / _HARD_DISK_BYTES_PER_S)
    if times <= 1:
        return "Even a hard disk keeps up."
    packed = ", unless the files are packed into large ones" if need <= _HARD_DISK_BYTES_PER_S else ""
    reads = "100 shuffled files" if files_per_s else "150 MB"
    return f"A hard disk reads only about {reads} per second, so training would take {times:,.1f} times as long{packed}."


def windows_wsl(case: Case) -> Matter:
    """Windows, WSL2 or Linux."""
    slower = 1 - case.seconds() / case.seconds(launch_factor=_WSL_LAUNCH)
    return Matter(
        topic="windows-wsl",
        question="Is Windows or WSL2 slower than Linux?",
        value=100 * slower,
        unit="% slower if launching an op took twice as long",
        answer="Kernels run at the same speed. "
        f"If launching ops took twice as long, {case.work} would be {100 * slower:.1f}% slower.",
        how="only the host time changes; twice the launch time is an assumed worst case",
        source="NVIDIA, Leveling up CUDA performance on WSL2 (2021): within 1% for long kernels",
        unless="files are on the Windows side of WSL2, the model is small, or Windows lets GPU memory overflow into RAM",
    )


def _takes_photographs(case: MattersCase) -> bool:
    """Whether inputs are images large enough to be stored as photographs."""
    return takes_images(case.workload()) and case.input_bytes() / case.step().batch >= _PHOTO_BYTES
