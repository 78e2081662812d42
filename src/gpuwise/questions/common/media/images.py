"""How long does an image take on a GPU? Answers in seconds per image and iterations per second, with the underlying step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import either, the
from gpuwise.hardware import tables
from gpuwise.hardware.types import Gpu
from gpuwise.prediction.images import PACKED, Drawings, draw
from gpuwise.questions.common.fit_command import fit_command
from gpuwise.questions.common.gpu_list import counted
from gpuwise.questions.common.options import names
from gpuwise.questions.common.prediction_types import PredictAnswer, Prediction
from gpuwise.questions.common.predictions import prediction_of
from gpuwise.questions.common.step import StepQuery, parse_batch, step_query
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.common.uses import trains
from gpuwise.workload.store.pipelines import STEP, Pipeline, makes_images, pipeline_of

__all__ = ["Drawn", "ImageAnswer", "ImagePrediction", "ImageQuery", "asked_for_images", "drawings", "predict_images"]

_MOST_STEPS = 10_000
_MOST_PIXELS = 4096
_WIDER = 1.15  # range for a model that only resembles the measured ones, assumed
_ONLY_TEXT = ("kv", "engine", "users", "prompt", "output", "context")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageQuery:
    """Images by one pipeline on some GPUs, `images` at once."""

    model: str
    step: StepQuery
    pipeline: Pipeline
    precision: str
    images: int
    image: int
    step_count: int
    weights: str
    assumptions: tuple[Assumption, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What a user waiting for an image notices. `it_per_s` counts denoising steps for all images of a call together. `moved_s`
    is spent on loading weights onto a GPU that cannot hold all models at once, which would take `all_bytes`. Loading them one
    after another takes `loading_s` for each call and needs `parts_bytes`.
    """

    images: int
    image: int
    steps: int
    seconds_per_image: float
    seconds_per_image_low: float
    seconds_per_image_high: float
    images_per_minute: float
    it_per_s: float
    text_s: float
    denoising_s: float
    decoding_s: float
    program_s: float
    moved_s: float
    weights: str
    all_bytes: float
    parts_bytes: float
    loading_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePrediction(Prediction):
    """A denoising step, and what it means for an image."""

    image_generation: Drawn

    @property
    def rate(self) -> tuple[float, str]:
        return self.image_generation.it_per_s, "it/s"

    def to_dict(self) -> dict[str, Any]:
        """In the names of `predict`, with the figures of an image beside them."""
        return {**Prediction.to_dict(self), "image_generation": asdict(self.image_generation)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageAnswer(PredictAnswer):
    """The same images on each GPU."""

    TEXT: ClassVar[str] = "questions.predict.images_text.render"


def asked_for_images(
    options: StepOptions, steps: int | None, *, weights: str = "", gpus: Sequence[Gpu] = ()
) -> ImageQuery | None:
    """Return the question if the model generates images; None for a single step: of its denoiser, or of training."""
    pipeline = _pipeline(options)
    if pipeline is None and steps is not None:
        raise BadValue(
            f"`--steps` sets the denoising steps per image, but {options.model} does not generate images",
            hint="try `gpuwise predict sdxl --steps 30 --gpu 4090`",
        )
    if pipeline is None:
        return None
    _check(options, pipeline, steps)
    images = parse_batch(options.batch) or 1
    named = {field.name: getattr(options, field.name) for field in fields(StepOptions)}
    query = step_query(
        StepOptions(**{**named, "model": pipeline.denoiser, "batch": None, "image": None, "mode": "infer"}), gpus=gpus
    )
    said = list(query.assumptions)
    if steps is None:
        said.append(assumed("steps", str(pipeline.steps), "the usual number for this model; change it with `--steps 30`"))
    if options.image is None:
        said.append(assumed("image", f"{pipeline.image} pixels", "the usual size for this model; change it with `--image 768`"))
    if options.batch is None:
        said.append(assumed("batch", "1", "one image at a time; change it with `--batch 4`"))
    if pipeline.passes == 2:
        said.append(assumed("guidance", "two passes of the denoiser for each image", "one with the prompt and one without it"))
    precision = query.capture.request.settings.precision
    return ImageQuery(
        model=options.model,
        step=query,
        pipeline=pipeline,
        precision=precision,
        images=images,
        image=options.image or pipeline.image,
        step_count=steps or pipeline.steps,
        weights=_weights(weights),
        assumptions=tuple(said),
    )


def _check(options: StepOptions, pipeline: Pipeline, steps: int | None) -> None:
    """Refuse options without effect, and impossible numbers."""
    if steps is not None and not 1 <= steps <= _MOST_STEPS:
        raise BadValue(f"invalid --steps {steps:,}", hint=f"give a number between 1 and {_MOST_STEPS:,}")
    if options.batch is not None and parse_batch(options.batch) == 0:
        raise BadValue(
            "`--batch auto` is not available for images", hint="give the number of images per batch, such as `--batch 4`"
        )
    if options.image is not None and (options.image % STEP or not STEP <= options.image <= _MOST_PIXELS):
        near = min(_MOST_PIXELS, max(STEP, STEP * round(options.image / STEP)))
        raise BadValue(
            f"the image size must be a multiple of {STEP} from {STEP} to {_MOST_PIXELS} pixels, not {options.image}",
            hint=f"try `--image {near}`",
        )
    other = [name for name in _ONLY_TEXT if getattr(options, name, None) not in ("", None)]
    if other:
        raise BadValue(
            f"`--{other[0]}` does not apply to {options.model}, which generates images",
            hint="set the number of images per batch with `--batch 4`, and their size with `--image 768`",
        )
    if options.gpus > 1 or any(counted(name)[0] > 1 for name in names(options.gpu)):
        raise BadValue(
            "each image is generated on one GPU, but several were given",
            hint="give one GPU; throughput grows in proportion to the number of GPUs",
        )


def _weights(text: str) -> str:
    """Return how large models store their weights; the default is 16 bits."""
    name = text.strip().lower()
    if name in ("", "fp16", "bf16"):
        return ""
    if name not in PACKED:
        raise BadValue(
            f"image models are predicted with weights in 16, 8 or 4 bits, not in '{text}'",
            known=", ".join(("fp16", "bf16", *PACKED)),
            hint="try `--weights int8`",
        )
    return name


def _pipeline(options: StepOptions) -> Pipeline | None:
    """Return the pipeline, if the name is that of the whole program rather than its denoiser."""
    asked = makes_images(options.model) and not trains(options) and not options.phase
    return pipeline_of(options.model) if asked else None


def drawings(query: ImageQuery, weights: str | None = None) -> Drawings:
    """What is drawn on each GPU, with the weights asked for or others."""
    return draw(
        query.pipeline,
        query.step.gpus,
        query.step.run,
        precision=query.precision,
        images=query.images,
        step_count=query.step_count,
        image=query.image,
        weights=query.weights if weights is None else weights,
    )


def predict_images(query: ImageQuery) -> ImageAnswer:
    """Images on each GPU of the question."""
    drawn = drawings(query)
    results = tuple(_prediction(query, drawn, place) for place in range(len(query.step.gpus)))
    return ImageAnswer(
        model=query.model,
        results=results,
        assumptions=query.assumptions,
        notes=_fit_note(query, [result.gpu for result in results if not result.fits]),
        data_date=tables.data_date(),
    )


def _fit_note(query: ImageQuery, short: Sequence[Gpu]) -> tuple[str, ...]:
    """Return the command to run next if the images do not fit on some GPUs."""
    if not short:
        return ()
    pipeline = query.pipeline
    command = fit_command(
        query.model,
        short,
        weights=query.weights,
        steps=query.step_count if query.step_count != pipeline.steps else None,
        image=query.image if query.image != pipeline.image else None,
        batch=query.images if query.images > 1 else None,
    )
    names = either(the(gpu.name) for gpu in short)
    return (f"the model does not fit on {names}; to see what would make it fit, run `{command}`",)


def _prediction(query: ImageQuery, drawn: Drawings, place: int) -> ImagePrediction:
    base = prediction_of(drawn.denoiser, place)
    values = {field.name: getattr(base, field.name) for field in fields(Prediction)}
    values |= {
        "step_high_s": max(base.step_high_s, base.step_s * drawn.width(place).high),
        "memory": drawn.memory(place),
        "fits": drawn.fits(place),
        "assumptions": query.assumptions,
    }
    if not query.pipeline.is_measured:
        values["range_basis"] = "assumed"
    return ImagePrediction(**values, image_generation=_drawn(drawn, place, query.weights))


def _drawn(drawn: Drawings, place: int, weights: str) -> Drawn:
    each = float(drawn.call_s[place]) / drawn.images
    wider = 1.0 if drawn.pipeline.is_measured else _WIDER
    width = drawn.width(place)
    return Drawn(
        images=drawn.images,
        image=drawn.image,
        steps=drawn.step_count,
        seconds_per_image=each,
        seconds_per_image_low=each * width.low / wider,
        seconds_per_image_high=each * width.high * wider,
        images_per_minute=60.0 / each,
        it_per_s=1.0 / float(drawn.iteration_s[place]),
        text_s=float(sum(one.step_s[0, place] for one in drawn.texts)),
        denoising_s=float(drawn.step_count * drawn.iteration_s[place]),
        decoding_s=float(drawn.decoder.step_s[0, place]),
        program_s=drawn.program_s,
        moved_s=float(drawn.moved_s[place]),
        weights=weights,
        all_bytes=drawn.at_once(place).total_bytes,
        parts_bytes=drawn.largest_part(place).total_bytes,
        loading_s=float(drawn.loading_s(place)),
    )
