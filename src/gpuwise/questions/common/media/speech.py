"""How fast does a GPU transcribe speech? Answers as a multiple of real time, with the underlying step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.hardware import tables
from gpuwise.hardware.types import Gpu
from gpuwise.prediction.speech import Transcripts, transcribe
from gpuwise.questions.common.gpu_list import counted
from gpuwise.questions.common.language.options import LanguageOptions
from gpuwise.questions.common.options import names
from gpuwise.questions.common.prediction_types import PredictAnswer, Prediction
from gpuwise.questions.common.predictions import prediction_of
from gpuwise.questions.common.step import StepQuery, parse_batch, step_query
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.common.uses import trains
from gpuwise.workload.store.speech import WINDOW_S, transcribes

__all__ = ["Heard", "SpeechAnswer", "SpeechPrediction", "SpeechQuery", "asked_for_speech", "predict_speech", "transcripts"]

_TOKENS = 105  # in 30 s of speech, assumed: 150 words a minute at 1.4 tokens each
_MOST_TOKENS = 448  # the most that Whisper writes for a window
_ONLY_TEXT = ("weights", "kv", "users", "prompt", "context")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechQuery:
    """Speech for one model on some GPUs, `windows` of 30 s at once, each transcribed in `tokens`."""

    step: StepQuery
    windows: int
    tokens: int
    assumptions: tuple[Assumption, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What a user waiting for a transcript notices. `realtime` is seconds of audio per second."""

    windows: int
    tokens_per_window: int
    realtime: float
    realtime_low: float
    realtime_high: float
    hour_s: float
    window_s: float
    listening_s: float
    writing_s: float
    token_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechPrediction(Prediction):
    """A step of the decoder, and what it means for a transcript."""

    transcription: Heard

    @property
    def rate(self) -> tuple[float, str]:
        return self.transcription.realtime, "x realtime"

    def to_dict(self) -> dict[str, Any]:
        """In the names of `predict`, with the figures of a transcript beside them."""
        return {**Prediction.to_dict(self), "transcription": asdict(self.transcription)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechAnswer(PredictAnswer):
    """The same speech on each GPU."""

    TEXT: ClassVar[str] = "questions.predict.speech_text.render"


def asked_for_speech(options: LanguageOptions, *, gpus: Sequence[Gpu] = ()) -> SpeechQuery | None:
    """Return the question if the model transcribes speech; None if it is trained, or for a single step."""
    if not transcribes(options.model) or trains(options) or options.phase or options.seq is not None:
        return None
    _check(options)
    windows, tokens = parse_batch(options.batch) or 1, options.output or _TOKENS
    named = {field.name: getattr(options, field.name) for field in fields(StepOptions)}
    query = step_query(StepOptions(**{**named, "batch": None, "mode": "infer"}), gpus=gpus)
    said = list(query.assumptions)
    said.append(assumed("engine", "transformers", "the only engine with measurements that apply to speech"))
    if options.batch is None:
        said.append(assumed("batch", "1", "one window of 30 s at a time, as for live speech; change it with `--batch 16`"))
    if options.output is None:
        said.append(
            assumed("output", f"{_TOKENS} tokens in 30 s", "150 words a minute at 1.4 tokens each; change it with `--output 60`")
        )
    said.append(assumed("search", "greedy", "beams and repeated passes take longer"))
    return SpeechQuery(step=query, windows=windows, tokens=tokens, assumptions=tuple(said))


def _check(options: LanguageOptions) -> None:
    """Refuse options without effect, and impossible numbers."""
    given = [name for name in _ONLY_TEXT if getattr(options, name) not in ("", None)]
    if given:
        raise BadValue(
            f"`--{given[0]}` does not apply to {options.model}, which transcribes speech",
            hint="set the number of 30 s windows per batch with `--batch 16`, and the tokens in each with `--output 100`",
        )
    if options.engine and options.engine.lower() not in ("transformers", "hf", "huggingface"):
        raise BadValue(
            f"speech is predicted only with transformers, not with {options.engine}",
            hint="leave out `--engine`; programs such as faster-whisper are faster",
        )
    if options.output is not None and not 1 <= options.output <= _MOST_TOKENS:
        raise BadValue(
            f"invalid --output {options.output:,}", hint=f"Whisper writes 1 to {_MOST_TOKENS} tokens for 30 s of audio"
        )
    if options.batch is not None and parse_batch(options.batch) == 0:
        raise BadValue(
            "`--batch auto` is not available for speech",
            hint="give the number of windows to process at once, such as `--batch 16`",
        )
    if options.gpus > 1 or any(counted(name)[0] > 1 for name in names(options.gpu)):
        raise BadValue(
            "each recording is transcribed on one GPU, but several were given",
            hint="give one GPU; throughput grows in proportion to the number of GPUs",
        )


def transcripts(query: SpeechQuery) -> Transcripts:
    """Return what is transcribed on each GPU."""
    asked = query.step.capture.request
    return transcribe(
        asked.model,
        query.step.gpus,
        query.step.run,
        precision=asked.settings.precision,
        windows=query.windows,
        tokens=query.tokens,
    )


def predict_speech(query: SpeechQuery) -> SpeechAnswer:
    """Transcripts on each GPU of the question."""
    found = transcripts(query)
    return SpeechAnswer(
        model=query.step.capture.request.model,
        results=tuple(_prediction(query, found, place) for place in range(len(query.step.gpus))),
        assumptions=query.assumptions,
        notes=(),
        data_date=tables.data_date(),
    )


def _prediction(query: SpeechQuery, found: Transcripts, place: int) -> SpeechPrediction:
    base = prediction_of(found.writing, place)
    memory, gpu = found.memory(place), base.gpu
    base = replace(base, memory=memory, fits=memory.total_bytes <= gpu.usable_memory_bytes + gpu.slow_memory_bytes)
    base = replace(base, assumptions=query.assumptions, tokens=1)
    values = {field.name: getattr(base, field.name) for field in fields(Prediction)}
    return SpeechPrediction(**values, transcription=_heard(found, place))


def _heard(found: Transcripts, place: int) -> Heard:
    listening, token = float(found.listening.step_s[0, place]), float(found.writing.step_s[0, place])
    whole = float(found.call_s[place])
    ends = [
        listening * float(getattr(found.listening.widths, end)[0, place])
        + found.tokens * token * float(getattr(found.writing.widths, end)[0, place])
        for end in ("low", "high")
    ]
    audio = found.windows * WINDOW_S
    return Heard(
        windows=found.windows,
        tokens_per_window=found.tokens,
        realtime=audio / whole,
        realtime_low=audio / ends[1],
        realtime_high=audio / ends[0],
        hour_s=3600.0 * whole / audio,
        window_s=whole,
        listening_s=listening,
        writing_s=found.tokens * token,
        token_s=token,
    )
