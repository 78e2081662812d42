"""Predicts rows of step times and pairs them with the measurements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpuwise.core.errors import GpuwiseError
from gpuwise.evidence.e2e import Question, residual
from gpuwise.evidence.fits import Fit, shipped
from gpuwise.evidence.images import WEB_UI
from gpuwise.evidence.ranges import as_known, knows, range_of, report_range
from gpuwise.evidence.types import Residual
from gpuwise.hardware.machines import find_host
from gpuwise.hardware.types import Gpu
from gpuwise.scale.cluster.collectives import slowed_fraction, waits_fraction
from gpuwise.scale.cluster.shape import Cluster, takes_bridge, usual_cluster
from gpuwise.scale.split.data_parallel import averaged, gradients_of, threaded_s, timeline_of
from gpuwise.step.time.setting import find_stack
from gpuwise.step.time.simulate import longest_s, simulate
from gpuwise.step.types import Setting, Stack, StepTimes
from gpuwise.workload.model.evaluate import call_counts, op_bytes, product_values

__all__ = ["cluster_of", "copied_bytes", "score", "setting_of"]

_HOST = "desktop"
_PAIR = 2
_BRIDGED = ("lambda_pytorch", "lambda_tf")  # do not say how most pairs were connected; `tools/fit_scaling.py` assumed a bridge
_COPY_BYTES_PER_S = 3e9  # pageable memory over PCIe


def score(asked: Sequence[Question], fit: Fit | None = None, refused: dict[int, str] | None = None) -> list[Residual]:
    """Predict every question, in row order, with this fit or the shipped one. Reasons for rows that could not be predicted go
    into `refused`.
    """
    fit, refused = fit or shipped(), {} if refused is None else refused
    groups: dict[tuple[object, ...], list[Question]] = defaultdict(list)
    for question in asked:
        setting, _ = setting_of(question, fit)
        software = (setting.stack, setting.host.launch_s, setting.tf32, setting.nhwc)
        beside = tuple((id(part.workload), part.share) for part in question.around)
        groups[(id(question.workload), beside, *software)].append(question)
    found: list[Residual] = []
    for members in groups.values():
        found += _scored(members, fit, refused)
    return sorted(found, key=lambda entry: entry.row)


def setting_of(question: Question, fit: Fit | None = None) -> tuple[Setting, bool]:
    """Return the software and machine of a row, and whether that software was fitted."""
    fit = fit or shipped()
    cells = question.cells
    source, version, how = cells["source"], cells.get("framework_version", ""), cells.get("stack", "eager") or "eager"
    own = fit.factors.get(f"{source}/{version}/{how}")
    stack, known = _stack(cells, how), own is not None
    factor = fit.factors.get(f"{source}//{how}") if own is None else own
    if factor is not None:
        stack = replace(stack, factor=factor)
    if question.procedure.unfused_attention:
        stack = replace(stack, fused_attention=False)
    host = find_host(_HOST)
    host = replace(host, launch_s=_of_machine(question, fit.launch_s, host.launch_s))
    last = cells.get("layout") == "nhwc" and not question.request.settings.channels_last  # not captured in that layout
    rounded = question.procedure.tf32_convolutions and cells["precision"] == "fp32"
    setting = Setting(stack=stack, host=host, tf32=cells["precision"] == "tf32", tf32_convolutions=rounded, nhwc=last or None)
    return setting, known


def _of_machine(question: Question, values: Mapping[str, float], default: float) -> float:
    """Return the value fitted for this source and GPU, for the source or for its kind of program, or else the default."""
    source = question.cells["source"]
    names = (f"{source}/{question.gpu.name}", source, question.cells.get("program", ""))
    return next((values[name] for name in names if name in values), default)


def _stack(cells: Mapping[str, str], how: str) -> Stack:
    version = cells.get("framework_version", "").split(" ")[0].replace("a0", "")
    try:
        return find_stack(f"{cells.get('framework') or 'torch'}-{version} {how}")[0]
    except GpuwiseError:
        return find_stack(f"torch {how}")[0] if how in ("eager", "compile") else find_stack("tf graph")[0]


def _scored(members: Sequence[Question], fit: Fit, refused: dict[int, str]) -> list[Residual]:
    """Predict questions about one workload in one setting: all sizes and GPUs at once."""
    first = members[0]
    setting, known = setting_of(first, fit)
    sizes = list(dict.fromkeys((question.batch, question.seq) for question in members))
    gpus: dict[str, Gpu] = {question.gpu.name: question.gpu for question in members}
    batch = np.array([size for size, _ in sizes]) if "batch" in first.workload.symbols else None
    seq = np.array([length for _, length in sizes], dtype=float) if first.seq is not None else None
    try:
        steps = simulate(first.workload, list(gpus.values()), setting, batch=batch, seq=seq, constants=fit.constants)
        steps = _with_parts(steps, members, sizes, list(gpus.values()), setting, fit)
    except GpuwiseError as fault:
        refused.update(dict.fromkeys((question.row for question in members), fault.message))
        return []
    values = product_values(first.workload, batch, seq)
    read, written = op_bytes(first.workload, values)
    moved = (read + written) @ call_counts(first.workload).sum(axis=0)
    places = {name: place for place, name in enumerate(gpus)}
    found = []
    for question in members:
        point, place = sizes.index((question.batch, question.seq)), places[question.gpu.name]
        answer = _one(question, steps, point, place, known, fit)
        found.append(replace(answer, work=(float(steps.flops[point, 0]), float(moved[point]))))
    return found


def _with_parts(
    steps: StepTimes,
    members: Sequence[Question],
    sizes: Sequence[tuple[float, float | None]],
    gpus: Sequence[Gpu],
    setting: Setting,
    fit: Fit,
) -> StepTimes:
    """Predict steps that also contain a share of other workloads: host and GPU work through all of them."""
    by_size = {(question.batch, question.seq): question.around for question in members}
    lanes = dict(steps.lanes)
    for place, part in enumerate(members[0].around):
        batch = np.array([by_size[size][place].batch for size in sizes])
        other = simulate(part.workload, gpus, setting, batch=batch, constants=fit.constants, by_kind=False)
        lanes = {name: lane + part.share * other.lanes[name] for name, lane in lanes.items()}
    return replace(steps, lanes=lanes, seconds=longest_s(lanes)) if members[0].around else steps


def _one(question: Question, steps: StepTimes, point: int, place: int, known: bool, fit: Fit) -> Residual:
    seconds = float(steps.seconds[point, place])
    seconds += copied_bytes(question) / _of_machine(question, fit.copy_bytes_per_s, _COPY_BYTES_PER_S)
    seconds += question.call_fraction * _of_machine(question, fit.call_s, 0.0)
    bound = str(steps.bound[point, place])
    seconds += _sharing_s(question, steps, point, place, fit)
    procedure = f"{question.cells['source']}/{question.cells.get('stack') or 'eager'}"
    width = range_of(known_generation=knows(question.gpu), known_stack=known, bound=bound, procedure=procedure)
    if question.cells.get("program") == WEB_UI and "reports" not in question.cells:
        width = report_range(question.gpu)
    width = as_known(width, question.gpu, known_stack=known)
    return replace(residual(question, seconds, seconds * width.low, seconds * width.high, bound), known=known)


def _sharing_s(question: Question, steps: StepTimes, point: int, place: int, fit: Fit) -> float:
    """Return the time that several GPUs add to a step: messages that are not hidden, and waiting for each other. With threads
    instead of processes, they also wait for the host, which serves all of them.
    """
    if question.gpu_count == 1:
        return 0.0
    workload, cluster = question.workload, cluster_of(question)
    alone = float(steps.seconds[point, place])
    if question.procedure.threads:
        return threaded_s(workload, cluster, float(steps.lanes["host"][point, place]))
    exposed = 0.0
    if workload.mode == "train":
        setting, _ = setting_of(question, fit)
        sizes = {"batch": question.batch, "seq": question.seq}
        line = timeline_of(workload, question.gpu, setting, **sizes, constants=fit.constants)
        gradients = gradients_of(workload, **sizes)
        exposed = averaged(line, gradients, cluster, slowed_fraction=slowed_fraction(setting)).exposed_s
    return exposed + waits_fraction(question.gpu_count) * (alone + exposed)


def cluster_of(question: Question) -> Cluster:
    """Return how the GPUs of a row were connected: the usual way, or pairs of cards by a bridge if a note says so or the
    constants were fitted that way.
    """
    said = question.cells["source"] in _BRIDGED or "NVLink" in question.cells.get("note", "")
    bridged = said and question.gpu_count == _PAIR and takes_bridge(question.gpu)
    return usual_cluster(question.gpu, question.gpu_count, link="NVLink" if bridged else "")


def copied_bytes(question: Question) -> float:
    """Return the bytes of images or weights that a source copies inside its steps, without overlapping the work."""
    if not question.procedure.copies:
        return question.moved_bytes
    size = float(question.cells["image_or_seq"] or 0)
    return question.batch * 3 * size * size * (2 if question.request.settings.precision == "fp16" else 4)
