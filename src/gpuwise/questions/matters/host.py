"""Topics about the rest of the machine: CPU, disks, operating system."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpuwise.core.text import a, the
from gpuwise.core.units import format_si
from gpuwise.hardware.machines import find_host, hosts, loaders
from gpuwise.hardware.types import Host
from gpuwise.questions.common.capturing import takes_images
from gpuwise.questions.common.step import named_host
from gpuwise.questions.matters.case import Case, MattersCase
from gpuwise.questions.matters.links import format_loss
from gpuwise.questions.matters.types import Matter
from gpuwise.step.time.setting import images_per_s, seconds_per_image, workers_for

__all__ = ["GUIDE", "OtherCpu", "cpu", "other_cpu", "ssd", "windows_wsl"]

_JPEG_BYTES = 110e3  # an ImageNet photograph; 1.28 million of them are about 140 GB
_DISKS = {"a SATA SSD": 500e6, "an NVMe SSD": 3e9}  # bytes a second, one reader
_HARD_DISK_BYTES_PER_S = 150e6  # in order
_HARD_DISK_FILES_PER_S = 100.0  # in random order: about 10 ms to move the heads and wait for the sector
GUIDE = "a guide to hardware for deep learning (2015, 2018)"
_PHOTO_BYTES = 3 * 128 * 128 * 2
_NOTICED = 0.05  # %: less rounds to 0.0
_OLD = "old quad-core"
_DECODING_SOURCE = (
    "; the time to decode and collect an image is from imread-benchmark (2026), and the time to transform it is from torchvision"
)
_WSL_LAUNCH = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherCpu:
    """The CPU to compare with a current desktop CPU: the user's own, or an old one."""

    name: str  # with its article
    asked: str
    host: Host


def other_cpu(asked: str) -> OtherCpu:
    """The CPU that the user names, with the cores of its family or class; without a name, a quad-core of 2013."""
    if not asked:
        return OtherCpu(name="a 2013 quad-core", asked=_OLD, host=find_host(_OLD))
    return OtherCpu(name=a(f"{asked} CPU") if asked in hosts() else the(asked), asked=asked, host=named_host(asked))


def cpu(case: MattersCase) -> Matter:
    """The user's CPU, or an old one, in place of a current one."""
    own = other_cpu(case.asked.cpu)
    slower = 100 * (1 - case.seconds(cpu="desktop") / case.seconds(cpu=own.asked))
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
        source=f"computed; {GUIDE} reports a loss of 1 to 10% for a CPU from 2007, and recommends two threads per GPU"
        + (_DECODING_SOURCE if decodes else ""),
        unless="the model is small; the host then limits the speed",
    )


def _describe_headline(case: MattersCase, own: OtherCpu) -> str:
    """What the loss is for, and that of JPEGs where these cores decode too few of them."""
    times = case.held * case.step().samples_per_s / _decoded_per_s(case, own.host)
    return " on decoded data" + (f", {times:.1f} times as long on JPEGs" if times > 1 else "")


def _decoded_per_s(case: MattersCase, host: Host) -> float:
    """JPEGs per second that all cores of this host decode, for one training process on each GPU."""
    return case.held * images_per_s(loaders()["pillow"], host, host.core_count / case.held)


def _describe_decoding(case: MattersCase, own: OtherCpu) -> str:
    """How many cores JPEG decoding needs, as `predict --image-decode` and `build` count it: each GPU has a training process,
    which collects what its share of the cores decodes.
    """
    loader, rate = loaders()["pillow"], case.held * case.step().samples_per_s
    host, whose = (own.host, own.name) if case.asked.cpu else (find_host("desktop"), "a current CPU")
    each, reached = workers_for(loader, host, rate / case.held), _decoded_per_s(case, own.host)
    times, count = rate / reached, own.host.core_count
    cores = min(case.held * each, count) if case.asked.cpu and times <= 1 else case.held * each
    needs = (
        f"{cores:.0f} cores of {whose} if Pillow decodes the images" if each < math.inf else "more cores than one process can use"
    )
    on = f" on {case.held} GPUs" if case.held > 1 else ""
    enough = (
        f"so training takes {times:.1f} times as long, unless you decode with a faster library or store smaller images"
        if times > 1
        else "which is enough"
    )
    single, collects = 1 / seconds_per_image(loader, host), images_per_s(loader, host, math.inf)
    return (
        f" JPEGs must also be decoded. One core of {whose} decodes {single:,.0f} images/s, and each GPU's training process "
        f"spends {1e3 / collects:.2g} ms collecting each image, one at a time. Keeping up with training "
        f"({rate:,.0f} images/s{on}) thus takes {needs}. The {count} cores of {own.name} deliver {reached:,.0f} images/s, "
        f"{enough}. "
        "`gpuwise predict --image-decode` uses the same rates."
    )


def ssd(case: MattersCase) -> Matter:
    """A fast disk for the data set."""
    rate = case.held * case.step().samples_per_s
    images = _takes_photographs(case)
    size = _JPEG_BYTES if images else case.input_bytes() / case.step().batch
    need = rate * size
    heads = _describe_hard_disk(rate if images else 0.0, need)
    enough = next((name for name, speed in _DISKS.items() if speed >= need), "RAM or an array of disks")
    what = f"{rate:,.0f} JPEGs of 110 kB each" if images else f"{rate:,.0f} samples of {format_si(size, 'B')} each"
    return Matter(
        topic="ssd",
        question="Do I need a fast disk?",
        value=need / 1e6,
        unit=f"MB/s to read the data; {enough} is enough",
        answer=f"Reading {what} per second requires {format_si(need, 'B/s')}, and {enough} is fast enough. {heads} "
        "A dataset that fits in RAM is read only once.",
        how="we multiply the samples per second of this step by the sample size",
        source="computed; an ImageNet photo is about 110 kB; we assume that a SATA SSD and an NVMe SSD read 500 and 3,000 MB/s, "
        "and that a hard disk reads 150 MB/s in order or 100 files/s in random order",
        unless="the dataset is on a network drive, where each file takes much longer to open",
    )


def _describe_hard_disk(files_per_s: float, need: float) -> str:
    """Return what a hard disk would do to training that reads this many shuffled files and bytes per second."""
    times = max(files_per_s / _HARD_DISK_FILES_PER_S, need / _HARD_DISK_BYTES_PER_S)
    if times <= 1:
        return "Even a hard disk keeps up."
    packed = ", unless the files are packed into larger ones" if need <= _HARD_DISK_BYTES_PER_S else ""
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
        answer=f"Kernels run at the same speed. If launching ops took twice as long, {case.work} would be {format_loss(slower)}.",
        how="only the host time changes; twice the launch time is an assumed worst case",
        source="NVIDIA, Leveling up CUDA performance on WSL2 (2021): within 1% for long kernels",
        unless="files are on the Windows side of WSL2, the model is small, or Windows lets GPU memory overflow into RAM",
    )


def _takes_photographs(case: MattersCase) -> bool:
    """Whether inputs are images large enough to be stored as photographs."""
    return takes_images(case.workload()) and case.input_bytes() / case.step().batch >= _PHOTO_BYTES
