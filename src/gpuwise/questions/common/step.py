"""A user's question about a step on GPUs, checked and completed with stated defaults; shared by all questions about steps."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import either, the
from gpuwise.core.units import parse
from gpuwise.evidence.ranges import knows_vendor
from gpuwise.hardware.machines import find_host, find_link, loaders, with_ram
from gpuwise.hardware.types import Gpu, Host, Loader, has_matrix_cores, supported
from gpuwise.prediction import Measured, Run
from gpuwise.prediction.ways import as_computed
from gpuwise.questions.common.capturing import CaptureQuery, capture_query, captured, check_precision, takes_images
from gpuwise.questions.common.gpu_list import how_many, named_gpus, set_of
from gpuwise.questions.common.options import names
from gpuwise.questions.common.rewriting import is_rewritten, step_of
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.common.tuning import Tuning, tuning_of, usual_low
from gpuwise.step.time.setting import default_stack, find_stack, images_per_s, seconds_per_image
from gpuwise.step.types import Setting, Stack
from gpuwise.workload import find
from gpuwise.workload.model.types import Workload
from gpuwise.workload.store import zoo
from gpuwise.workload.store.pipelines import makes_images

__all__ = [
    "DEFAULT_HOST",
    "StepQuery",
    "check_count",
    "least_watts",
    "named_host",
    "parse_batch",
    "step_query",
    "unmeasured_backends",
    "workload_of",
]

_MODEL_NUMBER = 100  # a larger count of GPUs is more likely the number of a model
_MOST_GPUS = 4096  # a bound against typing errors; larger clusters are a question for `plan`
_MOST_WORKERS = 1024  # loader processes: more than any host has threads for
_LEAST_POWER = 0.2  # of the rated power, where the lowest limit is not published
DEFAULT_HOST = "desktop"
_BACKENDS = {"Apple": "MPS", "Intel": "XPU", "Google": "XLA"}  # the same in PyTorch and TensorFlow


@dataclass(frozen=True, slots=True, kw_only=True)
class StepQuery:
    """One model on some GPUs. A `batch` of None is the model's default, 0 the largest power of two that fits. With a `tuning`,
    adapters are trained instead of the weights.
    """

    capture: CaptureQuery
    gpus: tuple[Gpu, ...]
    batch: int | None = None
    run: Run
    tuning: Tuning | None = None
    on_this_machine: bool = False
    assumptions: tuple[Assumption, ...] = ()

    def changed(self, **run: Any) -> StepQuery:
        """The same question with another `Run`."""
        return replace(self, run=replace(self.run, **run))


def step_query(
    options: StepOptions,
    *,
    gpus: Sequence[Gpu] = (),
    link: str = "",
    image_decode: bool = False,
    workers: int | None = None,
    on_this_machine: bool = False,
) -> StepQuery:
    """Return the question, checked and completed with stated defaults. `gpus` replace the names in the options; `link`
    connects several GPUs, as in `plan`.
    """
    if on_this_machine:
        from gpuwise.questions.common.here import gpu_here, named_here, without_assumed  # looks for a profile of `gpuwise bench`

        found, notes = named_gpus(gpu_here(names(options.gpu), options.gpus))
        query = _step_on(named_here(found), notes, options, link, image_decode, workers)
        return replace(query, on_this_machine=True, assumptions=without_assumed(query.assumptions))
    if gpus:
        return _step_on(tuple(gpus), [], options, link, image_decode, workers)
    _check_names(names(options.gpu), options.gpus)
    count, named = how_many(names(options.gpu), options.gpus)
    return _step_on(*named_gpus(named), replace(options, gpus=count), link, image_decode, workers)


def _step_on(
    gpus: tuple[Gpu, ...], notes: list[Assumption], options: StepOptions, link: str, image_decode: bool, workers: int | None
) -> StepQuery:
    """Return the question about these GPUs; assumptions are added to `notes`."""
    check_count(gpus, options.gpus, link)
    mode = options.mode or ("infer" if options.phase else "")
    if not (mode or options.optimizer or options.method) and makes_images(options.model):
        mode = "infer"
        effect = "the denoiser only, because the model's other parts can stay on the CPU; use `--mode train` to train it"
        notes.append(assumed("mode", "infer", effect))
    own = find.tells_itself(options.model)
    says = options.method or options.targets or options.rank is not None
    tuning = tuning_of(options, gpus, notes) if says else None
    filled = {} if own else _defaults(options, mode or "train", tuning, gpus, notes)
    size = parse_batch(options.batch)
    asked = capture_query(
        model=options.model,
        batch=size or None,
        seq=options.seq,
        image=options.image,
        precision=filled.get("precision", options.precision),
        mode=mode,
        optimizer=filled.get("optimizer", options.optimizer),
        accumulate=options.accumulate,
        checkpoint=options.checkpoint,
        channels_last=options.channels_last,
        compiled=options.compile,
        phase=options.phase,
        inputs=names(options.input),
        timeout_s=options.timeout,
    )
    software = _stack(options.stack, options.compile, gpus, notes)
    host = _host(options.cpu, options.ram_speed, gpus, notes)
    decoder = _decoder(image_decode, workers, options.loader_samples_per_s)
    rate = _positive(options.loader_samples_per_s, "--loader-samples-per-s")
    setting = Setting(
        stack=software,
        host=host,
        link_bytes_per_s=_link(options.pcie),
        loader_samples_per_s=_decode_rate(decoder, host, workers, options.gpus, notes) if decoder else rate,
    )
    run = Run(
        setting=setting,
        gpu_count=options.gpus,
        gpu_link=link or options.pcie,
        decoder=decoder,
        power_limit_watts=_watts(options.power_limit, gpus, notes),
        measured=tuple(_measured(text, size, notes) for text in names(options.measured)),
    )
    if (tuning or options.accumulate) and is_rewritten(asked, tuning):
        run = replace(run, accumulate=asked.request.settings.accumulate)
    return StepQuery(
        tuning=tuning,
        capture=replace(asked, asked=asked.asked - filled.keys(), assumptions=()),
        gpus=gpus,
        batch=size,
        run=run,
        assumptions=tuple(notes),
    )


def _check_names(given: Sequence[str], count: int) -> None:
    """Refuse a question that names no GPU."""
    if not given:
        meant = "; `--gpus` sets only the number of GPUs" if count > 1 else ""
        meant += f". Did you mean `--gpu {count}`?" if count >= _MODEL_NUMBER else ""
        raise BadValue("no GPU was given", hint=f'try `--gpu "RTX 3090"`{meant}')
    mixed = next((name for name in given if len(set_of(name)) > 1), "")
    if mixed:
        raise BadValue(
            f"only language models that generate text can run on different GPUs at once, such as '{mixed}'",
            hint=f'try `gpuwise plan MODEL --cluster "{mixed}"` for training, or name one kind of GPU',
        )


def check_count(gpus: Sequence[Gpu], count: int, link: str) -> None:
    """Refuse an impossible number of GPUs, several CPUs, and a link between a single GPU and nothing."""
    if not 1 <= count <= _MOST_GPUS:
        raise BadValue(f"invalid --gpus {count}", hint=f"give a number between 1 and {_MOST_GPUS}")
    if link and count == 1:
        raise BadValue(
            f"--link '{link}' needs several GPUs, but only one was given",
            hint="set the number with `--gpus 2`, or leave out `--link`",
        )
    if count > 1 and any(one.is_cpu for one in gpus):
        raise BadValue("`--gpus` sets the number of GPUs, but a CPU was given", hint="leave out `--gpus`")


def _defaults(
    options: StepOptions, mode: str, tuning: Tuning | None, gpus: Sequence[Gpu], notes: list[Assumption]
) -> dict[str, str]:
    """Return the usual precision and optimizer if the user gave none. Adapters have their own optimizer."""
    model, precision, optimizer = options.model, options.precision, options.optimizer
    filled = {}
    if precision == "int4" and mode == "train":
        raise BadValue("a model cannot be trained in int4", hint="train in amp or bf16; int4 weights are for inference")
    if not precision:
        filled["precision"], why = (
            (usual_low(gpus), "the usual type for frozen weights") if tuning else _usual_precision(mode, gpus)
        )
        notes.append(assumed("precision", filled["precision"], f"{why}; change it with `--precision`"))
    if tuning:
        filled["optimizer"] = "none"
    elif not optimizer and mode == "train":
        usual = zoo.entry(model).optimizer if zoo.has(model) else ""
        filled["optimizer"] = usual or "adamw"
        why = "the usual optimizer for this model" if usual else "the most common choice"
        notes.append(assumed("optimizer", filled["optimizer"], why))
    return filled


def _usual_precision(mode: str, gpus: Sequence[Gpu]) -> tuple[str, str]:
    """Return what people run on these GPUs, and why."""
    train, alone = mode == "train", len(gpus) == 1
    if all(has_matrix_cores(gpu) for gpu in gpus):
        return "amp" if train else "fp16", "matrix cores need 16-bit inputs"
    if any("fp32" not in supported(gpu) for gpu in gpus):
        return "amp-bf16" if train else "bf16", f"{'this device lacks' if alone else 'not every GPU named here supports'} fp32"
    return "fp32", f"usual {'on a device without' if alone else 'where not every GPU has'} matrix cores"


def _watts(text: str, gpus: Sequence[Gpu], notes: list[Assumption]) -> float | None:
    """Return a power limit that each of these GPUs supports."""
    if not text:
        return None
    limit = parse(f"{text} W" if re.fullmatch(r"[-+]?[\d.]+", text.strip()) else text, "power")
    for gpu in gpus:
        rated, least = gpu.tdp_watts or math.inf, least_watts(gpu)
        if not limit >= least:
            raise BadValue(
                f"{limit:g} W is below the power range of {the(gpu.name)} ({least:.0f} to {rated:.0f} W)",
                hint=f"try `--power-limit {(least + min(rated, 2 * least)) / 2:.0f}W`",
            )
        if limit > rated:
            notes.append(
                assumed(
                    f"{gpu.name} power",
                    f"{rated:g} W instead of {limit:g} W",
                    "the default limit of this GPU, which gpuwise does not raise",
                    code="power_limit",
                    overrides=True,
                )
            )
    return limit


def least_watts(gpu: Gpu) -> float:
    """Return the lowest power limit of a GPU, published or assumed. The published range of a laptop GPU is what makers may
    choose for sustained work; quiet modes and batteries go below it.
    """
    published = None if gpu.segment == "laptop" else gpu.power_min_watts
    return published or (_LEAST_POWER * gpu.tdp_watts if gpu.tdp_watts else 1.0)


def parse_batch(text: str | int | None) -> int | None:
    """A batch size from text or number: None is the usual one, 0 the largest that fits.

    >>> parse_batch("32"), parse_batch(32), parse_batch("auto"), parse_batch("")
    (32, 32, 0, None)
    """
    if text is None or text == "":
        return None
    if isinstance(text, str) and text.strip().lower() == "auto":
        return 0
    try:
        size = int(text)
    except ValueError:
        raise BadValue(
            f"invalid batch size '{text}'", hint="give a whole number, or `auto` for the largest batch that fits"
        ) from None
    if not 1 <= size < 2**31:
        raise BadValue(f"invalid batch size {size:,}", hint="give a number between 1 and 2,147,483,647, or `auto`")
    return size


def _positive(value: float | None, what: str) -> float | None:
    if value is not None and not 0 < value < math.inf:
        raise BadValue(f"{what} must be a positive number, not {value:g}", hint=f"try `{what} 800`")
    return value


def _decoder(wanted: bool, workers: int | None, given_rate: float | None) -> Loader | None:
    """Return how images are loaded, if the loader's speed is to be computed."""
    if wanted and given_rate is not None:
        raise BadValue(
            "`--image-decode` and `--loader-samples-per-s` both set the data loader's rate", hint="leave out one of them"
        )
    if workers is not None and not wanted:
        raise BadValue("--workers requires --image-decode", hint="try `--image-decode --workers 8`")
    if workers is not None and not 1 <= workers <= _MOST_WORKERS:
        raise BadValue(f"invalid --workers {workers}", hint=f"give a number between 1 and {_MOST_WORKERS}")
    return loaders()["pillow"] if wanted else None


def _decode_rate(loader: Loader, host: Host, workers: int | None, gpu_count: int, notes: list[Assumption]) -> float:
    """Images per second for each GPU; the loaders of all GPUs share the cores of the host."""
    cores = host.core_count / gpu_count
    busy = min(float(workers or cores), cores)
    rate = images_per_s(loader, host, busy)
    if workers is None:
        notes.append(
            assumed(
                "workers", f"{cores:.3g} per GPU", f"one for each of the CPU's {host.core_count} cores; set it with `--workers 4`"
            )
        )
    elif workers > cores:
        notes.append(assumed("workers", f"{cores:.3g} of {workers}", f"the CPU has {host.core_count} cores"))
    single = 1.0 / seconds_per_image(loader, host)
    effect = (
        f"for ImageNet JPEGs with random crop and flip: {single:.0f} images/s per core, collected by one process; "
        f"the range is {loader.low:g} to {loader.high:g} times that rate"
    )
    notes.append(assumed("image loading", f"{rate:,.0f} images/s with {loader.title}", effect))
    return rate


def _stack(text: str, compiled: bool, gpus: Sequence[Gpu], notes: list[Assumption]) -> Stack:
    if text:
        stack, remark = find_stack(text, compiled)
        notes += [assumed("stack", f"{stack.name} instead of {text.strip()}", remark, overrides=True)] if remark else []
        return stack
    stack = default_stack(compiled)
    through = unmeasured_backends(gpus)
    value = f"{stack.name} with {' and '.join(through)}" if through and not _any_measured(gpus) else stack.name
    but = f", on CUDA and ROCm but not with {either(through)}" if through else ""
    notes.append(assumed("stack", value, f"the newest measured version{but}; change it with `--stack torch-1.13`"))
    return stack


def _any_measured(gpus: Sequence[Gpu]) -> bool:
    return any(gpu.is_cpu or knows_vendor(gpu) for gpu in gpus)


def _host(cpu: str, ram_speed: str, gpus: Sequence[Gpu], notes: list[Assumption]) -> Host:
    """Return the host of these GPUs, named or usual; `notes` gets what was assumed about it."""
    host = named_host(cpu or DEFAULT_HOST, ram_speed)
    if cpu:
        named = cpu.lower() in {name.lower() for name in (host.name, *host.aliases)}
        notes += [] if named else [assumed("cpu", host.described, f"the class of {cpu}, inferred from its name")]
        return host
    effect = f"it launches a layer in {host.launch_s * 1e6:.0f} µs, which matters for small models; change it with `--cpu laptop`"
    if not _any_measured(gpus):
        makers = either(dict.fromkeys(gpu.vendor for gpu in gpus))
        effect = f"assumed, because no machine with {makers} devices was measured; {effect}"
    notes.append(assumed("cpu", host.described, effect))
    return host


def named_host(name: str, ram_speed: str = "") -> Host:
    """Return the class of this CPU, with the cores of the CPU itself if its name is known, and with this RAM if it is given."""
    host = find_host(name)
    if name != host.name:  # the name of a CPU, not of a class
        from gpuwise.box.parts import find_cpu_family  # reads the table of CPU names

        host = replace(host, core_count=family.core_count) if (family := find_cpu_family(name)) else host
    return with_ram(host, ram_speed) if ram_speed else host


def _link(text: str) -> float | None:
    if not text:
        return None
    try:
        link = find_link(text)
    except UnknownName as fault:
        hint = "give the generation and the number of lanes, such as `--pcie 'PCIe 4.0 x16'`"
        raise UnknownName(f"unknown PCIe link '{text}'", looked_in=fault.looked_in, known=fault.known, hint=hint) from None
    return link.bytes_per_s_one_way * link.achieved_fraction


def _measured(text: str, batch: int | None, notes: list[Assumption]) -> Measured:
    """Parse `RTX 3090=412ms` into the GPU and its seconds per step, at the batch of the question."""
    name, equals, value = text.rpartition("=")
    if not equals or not name.strip():
        raise BadValue(f"invalid measured step '{text}'", hint='try `--measured "RTX 3090=412ms"`')
    spaced = re.sub(r"(?<=\d)\s*(?=[a-zµ]+$)", " ", value.strip())
    seconds = parse(spaced, "time")
    if not 0 < seconds < 1e6:
        limits = "a measured step must take more than 0 s and less than 1e6 s"
        raise BadValue(f"{limits}, not {value}", hint='try `--measured "RTX 3090=412ms"`')
    (gpu,), taken = named_gpus([name.strip()])
    notes += [note for note in taken if note not in notes]
    return Measured(gpu=gpu, step_s=seconds, batch=batch)


def workload_of(query: StepQuery, progress: Callable[[str], None] = lambda text: None) -> Workload:
    """Return the model's workload: from the zoo, a file, the cache, or a capture."""
    if not find.tells_itself(query.capture.request.model):
        check_precision(query.capture.request.settings.precision, query.gpus)
    settings = query.capture.request.settings
    plain = query.tuning is None and not settings.checkpoint and settings.accumulate == 1
    workload = captured(query.capture, progress) if plain else step_of(query.capture, query.tuning, query.run, progress)
    check_precision(workload.precision, query.gpus)
    if query.run.decoder and not takes_images(workload):
        raise BadValue(
            f"{workload.model} does not take images, so there is nothing to decode",
            hint="leave out `--image-decode`, or set the rate of the data loader with `--loader-samples-per-s`",
        )
    return as_computed(workload)


def unmeasured_backends(gpus: Iterable[Gpu]) -> tuple[str, ...]:
    """Return the backends of GPUs whose makers were never measured, each once."""
    makers = dict.fromkeys(gpu.vendor for gpu in gpus if not gpu.is_cpu and not knows_vendor(gpu))
    return tuple(_BACKENDS.get(maker, f"{maker}'s software") for maker in makers)
