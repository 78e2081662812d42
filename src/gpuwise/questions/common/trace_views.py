"""Turns profiler files into views for the checks: looks up the GPU in the catalogue, and refuses unusable files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from gpuwise.core.errors import BadFile
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.diagnose.devices import each_device, with_accelerators_named
from gpuwise.diagnose.ranks import as_ranks
from gpuwise.diagnose.scene import Scene, make_scene, with_whole_steps
from gpuwise.diagnose.view import View, make_view
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.trace.read import read_trace
from gpuwise.trace.source import ends_early
from gpuwise.trace.types import CutOff, Device, Kind, Trace

__all__ = ["Progress", "read_view", "read_views"]

Progress = Callable[[str, float], None]
_MOST_GPUS = 64  # of one file
_GUESSED = ("kernels", "span")  # steps that no mark tells
_FAR_NS = 3_600_000_000_000  # between recordings of one run: an hour, more than the clocks of hosts differ


def read_views(
    paths: Sequence[Path], gpu: str, notes: list[Assumption], progress: Progress
) -> tuple[list[tuple[View, ...]], list[str]]:
    """Return every readable file with a view of each of its GPUs, the busiest first. If there are several files, an unreadable
    one is skipped and named.
    """
    views: list[tuple[View, ...]] = []
    skipped: list[str] = []
    for path in paths:
        try:
            views.append(_read(path, gpu, notes, progress))
        except BadFile as fault:
            if len(paths) == 1 or (path is paths[-1] and not views):
                raise
            skipped.append(f"skipped: {fault.message}")
        _refuse_strangers([found[0] for found in views if found])
    return views, skipped


def _refuse_strangers(views: Sequence[View]) -> None:
    """Refuse files from different runs as soon as two of them show it, before the rest of a large folder is read."""
    if len(views) < 2:
        return
    windows = [view.scene.steps.window for view in views]
    ranks = [rank for view in views if (rank := view.scene.trace.rank) is not None]
    alike = len({view.scene.trace.world_size for view in views}) == 1 and len(set(ranks)) == len(ranks)
    if not alike or max(begin for begin, _ in windows) - min(end for _, end in windows) > _FAR_NS:
        as_ranks(views)  # says why


def read_view(path: Path, gpu: str, notes: list[Assumption], progress: Progress, *, otherwise: str = "") -> View:
    """Return the busiest GPU of one file, with the catalogue entry that the user named, else that of the trace, else
    `otherwise`.
    """
    return _read(path, gpu, notes, progress, otherwise=otherwise, most=1)[0]


def _read(
    path: Path, gpu: str, notes: list[Assumption], progress: Progress, *, otherwise: str = "", most: int = _MOST_GPUS
) -> tuple[View, ...]:
    trace = with_accelerators_named(read_trace(path, lambda fraction: progress(f"reading {path.name}", fraction)))
    views: list[View] = []
    for place, (own, index, alone) in enumerate(list(each_device(trace))[:most] or [(trace, None, True)]):
        try:
            scene = _scene(path, own, index, alone)
        except BadFile:
            if place == 0:
                raise
            continue
        if views:
            scene = _in_step(scene, views[0].scene)
        found = load_catalog().find(gpu).gpu if gpu else _gpu(scene, notes)
        if found is None and otherwise and not scene.on_cpu:
            found = load_catalog().find(otherwise).gpu
        views.append(make_view(scene, found))
    return tuple(views)


def _in_step(scene: Scene, first: Scene) -> Scene:
    """Return the scene of another GPU with the steps of the first one if they exchange data. Kernels may repeat within the steps
    of one rank more clearly than on another, but ranks of one program have the same steps.
    """
    differ = scene.steps.by in _GUESSED and len(scene.steps.start_ns) != len(first.steps.start_ns)
    joined = all(one.is_class("communication").any() for one in (scene, first))
    return replace(scene, steps=first.steps) if differ and joined else scene


def _scene(path: Path, trace: Trace, index: int | None, alone: bool) -> Scene:
    """Return the contents of a trace, or refuse it if it is empty or lacks something essential."""
    if not len(trace.events):
        if trace.cut is not None:
            raise _cut_off(path, trace, trace.cut, "it contains no events with a duration")
        lost = "; ".join(loss.what for loss in trace.losses)
        raise BadFile(
            f"'{path.name}' contains no events with a duration" + (f" ({lost})" if lost else ""),
            hint="record at least three steps with the profiler",
        )
    scene = make_scene(trace, index, alone)
    if trace.cut is not None:
        return _whole_part(path, scene, trace.cut)
    if not len(scene.work):
        raise _without_work(path, trace)
    _check_gpu_recorded(path, scene)
    return scene


def _without_work(path: Path, trace: Trace) -> BadFile:
    looked = f"its {len(trace.events):,} events"
    if trace.framework.startswith("TensorFlow"):
        return BadFile(
            f"'{path.name}' contains only host events, which TensorFlow and JAX do not record in enough detail",
            looked_in=looked,
            hint="record on the machine with the GPU, with device tracing enabled (the default in jax.profiler and tf.profiler)",
        )
    return BadFile(
        f"'{path.name}' contains neither kernels nor ops",
        looked_in=looked,
        hint="record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    )


def _whole_part(path: Path, scene: Scene, cut: CutOff) -> Scene:
    """Return the complete steps of a truncated file. A file without the GPU's events does not count as a run on the CPU."""
    kernels = not scene.on_cpu and scene.kernels.any()
    if not kernels and (cut.hides_gpu or len(scene.launches)):
        raise _cut_off(path, scene.trace, cut, "it contains no GPU kernels, which profilers write last")
    whole = with_whole_steps(scene) if len(scene.work) else None
    if whole is None:
        raise _cut_off(path, scene.trace, cut, _no_step(scene))
    return whole


def _no_step(scene: Scene) -> str:
    if not scene.steps.marked:
        return "it contains no step marks, so gpuwise cannot tell what is missing"
    if len(scene.steps.start_ns) == 1:
        return "its only step may be incomplete"
    return "no two of its steps contain the same work, so any of them may be incomplete"


def _cut_off(path: Path, trace: Trace, cut: CutOff, lacking: str) -> BadFile:
    return ends_early(path.name, cut.where, lacking, f"its {len(trace.events):,} complete events")


def _check_gpu_recorded(path: Path, scene: Scene) -> None:
    """Refuse to take a run on a GPU for one on the CPU because the GPU's part is missing. A CPU trace on a machine with a GPU
    names it too, so a name alone says nothing unless something was lost.
    """
    trace = scene.trace
    issued = scene.trace.named("launch")[scene.launches.name] if _has_copies(trace) else np.ones(len(scene.launches), dtype=bool)
    if not scene.on_cpu or not (issued.any() or (trace.devices and trace.losses)):
        return
    lost = "; ".join(loss.what for loss in trace.losses)
    raise BadFile(
        f"'{path.name}' was recorded on a GPU, but contains no GPU work" + (f" ({lost})" if lost else ""),
        looked_in=f"its {len(trace.events):,} events, {len(scene.launches):,} of them launches",
        hint="also record with ProfilerActivity.CUDA",
    )


def _has_copies(trace: Trace) -> bool:
    """Return whether copies on a GPU were recorded: a run without kernels then launched none, and only copied."""
    return bool(((trace.events.kind == Kind.MEMCPY) | (trace.events.kind == Kind.MEMSET)).any())


def _gpu(scene: Scene, notes: list[Assumption]) -> Gpu | None:
    """Return the trace's GPU in the catalogue: by name, or else by its multiprocessors and memory."""
    device = scene.device
    if scene.on_cpu or not device.is_gpu:
        return None
    if device.name and (match := load_catalog().match(device.name)):
        return match.gpu
    found = _alike(device)
    if found is not None:
        told = assumed(
            "gpu",
            found.name,
            f"inferred from its {device.sm_count} multiprocessors and {(device.memory_bytes or 0) / 1e9:.1f} GB of memory; "
            "set another with `--gpu`",
        )
        if told not in notes:
            notes.append(told)
    return found


def _alike(device: Device) -> Gpu | None:
    if not device.sm_count or not device.memory_bytes:
        return None
    version = ".".join(str(part) for part in device.capability or ())
    for gpu in load_catalog().curated:
        same = gpu.sm_count == device.sm_count and abs(gpu.memory_bytes / device.memory_bytes - 1.0) < 0.08
        if same and (not version or gpu.vendor != "NVIDIA" or gpu.architecture.capability == version):
            return gpu
    return None
