"""A user's question about generating text, checked and completed with stated defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import the
from gpuwise.hardware.types import Gpu
from gpuwise.prediction.generation import Serving, mixed
from gpuwise.questions.common.gpu_list import counted, how_many, named_gpus, set_of
from gpuwise.questions.common.language.options import LanguageOptions
from gpuwise.questions.common.options import names
from gpuwise.questions.common.step import DEFAULT_HOST, check_count, named_host
from gpuwise.questions.common.uses import SERVED_PRECISIONS
from gpuwise.step.time.engines import PREFERRED, Engine, engines, find_engine, refusal, usual_split, weights_in
from gpuwise.workload.language.find import find_shape
from gpuwise.workload.language.shape import LanguageShape
from gpuwise.workload.language.weight_formats import FORMATS, Format, find_cache, find_format, published_format
from gpuwise.workload.store import zoo

__all__ = [
    "AsksForText",
    "LanguageQuery",
    "asked_for_text",
    "generates_unasked",
    "language_query",
    "language_shape",
    "preferred_engines",
]

_PROMPT, _OUTPUT = 512, 256  # tokens in a chat turn, assumed
# llama.cpp runs these on every GPU.
_IN_LLAMA_CPP = ("mxfp4", *(name for name, kind in FORMATS.items() if kind.family in ("gguf", "gguf8")))
_LAYERED = "llama.cpp"  # the usual engine for GPUs of several kinds
_RESEARCH = ("gpt2", "gpt3", "opt")  # families from before chat, which people train and measure


class AsksForText(Protocol):
    """Options for generating text."""

    @property
    def weights(self) -> str: ...

    @property
    def kv(self) -> str: ...

    @property
    def engine(self) -> str: ...

    @property
    def users(self) -> int | None: ...

    @property
    def prompt(self) -> int | None: ...

    @property
    def output(self) -> int | None: ...

    @property
    def context(self) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageQuery:
    """Text from one model on some GPUs, with the requested serving for each."""

    model: str
    gpus: tuple[Gpu, ...]
    serving: Serving
    format_name: str
    assumptions: tuple[Assumption, ...] = ()


_host = lru_cache(maxsize=64)(named_host)  # a survey of many GPUs asks for the same CPU each time


def language_shape(model: str) -> LanguageShape | None:
    """Return the sizes of a language model, from any name or file that gives them; None if it is not one."""
    if ":" in model and not model.startswith("hf:"):
        return None
    try:
        return find_shape(model)
    except GpuwiseError:
        return None


def language_query(
    model: str,
    options: AsksForText,
    gpus: Sequence[Gpu],
    *,
    gpu_count: int = 1,
    precision: str = "",
    cpu: str = "",
    ram_speed: str = "",
    link: str = "",
    power_limit_watts: float | None = None,
    notes: Sequence[Assumption] = (),
) -> LanguageQuery:
    """Return the question, with defaults filled in."""
    said = list(notes)
    _check_numbers(options)
    shape = find_shape(model)
    name = _format_name(model, shape, options, precision, gpus, said)
    kv = find_cache(options.kv) if options.kv else ""
    engine = _engine(options.engine, name, kv, gpus, said)
    for gpu in gpus:
        fault = refusal(engine, gpu, name, kv)
        if fault is not None:
            raise fault
    said += [assumed("weights", name, told) for gpu in gpus if (told := _not_native(engine, gpu, FORMATS[name]))]
    prompt, output = _lengths(shape, options, said)
    split = _split(engine, shape, gpu_count, said)
    users = options.users or 1
    if options.users is None:
        said.append(assumed("users", "1", "one request at a time; change it with `--users 10`"))
    serving = Serving(
        shape=shape,
        engine=engine,
        weights=weights_in(engine, name),
        host=_host(cpu or DEFAULT_HOST, ram_speed),
        cache=kv or "fp16",
        users=users,
        prompt=prompt,
        output=output,
        gpu_count=gpu_count,
        split=split,
        gpu_link=link,
        power_limit_watts=power_limit_watts,
    )
    return LanguageQuery(model=model, gpus=tuple(gpus), serving=serving, format_name=name, assumptions=tuple(said))


def _check_numbers(options: AsksForText) -> None:
    """Refuse counts below one."""
    for name in ("users", "prompt", "output", "context"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise BadValue(f"invalid --{name} {value}", hint=f"give a whole number above 0, or leave out `--{name}`")


def asked_for_text(
    options: LanguageOptions, *, link: str = "", gpus: Sequence[Gpu] = (), gpu_count: int = 1
) -> LanguageQuery | None:
    """The question where these options ask a language model for text; None where they ask for a step.

    Inference without an option that only a step has (`--batch`, `--seq`, `--phase`, ...) is generating text, and so is a model
    that generates by default (docs/decisions/0029).
    GPUs that were found already may be given, with how many of each, in place of those that the options name."""
    if options.method:
        if options.asks_for_text:
            raise BadValue(
                f"`--method {options.method}` trains a model, but you also gave text generation options",
                hint="leave out `--method`, or leave out `--weights`, `--engine`, `--users` and similar options",
            )
        return None
    if options.model.endswith(".gguf"):
        find_shape(options.model)  # says what is wrong with the file
    plain = options.mode == "infer" or generates_unasked(options.model)
    plain = plain and options.mode != "train" and not _asks_for_a_step(options)
    if not options.asks_for_text and not plain and not (options.precision == "int4" and options.mode != "train"):
        return None
    if language_shape(options.model) is None:
        if not options.asks_for_text:
            return None
        find_shape(options.model)  # says what it looked for
    _check_step_options(options)
    if options.mode == "train":
        raise BadValue(
            "`--mode train` cannot be combined with text generation options",
            hint="leave out `--mode`, or use `--method qlora` to train with quantised weights",
        )
    notes: Sequence[Assumption] = ()
    if not gpus and any(len(set_of(name)) > 1 for name in names(options.gpu)):
        return _mixed_query(options, link)
    if not gpus:
        gpu_count, named = how_many(names(options.gpu), options.gpus)
        gpus, notes = named_gpus(named)
    if not gpus:
        raise BadValue("no GPU was given", hint='try `--gpu "RTX 3090"`')
    check_count(gpus, gpu_count, link)
    return language_query(
        options.model,
        options,
        gpus,
        gpu_count=gpu_count,
        precision=options.precision,
        cpu=options.cpu,
        ram_speed=options.ram_speed,
        link=link,
        power_limit_watts=None,
        notes=notes,
    )


def _mixed_query(options: LanguageOptions, link: str) -> LanguageQuery:
    """One model over GPUs of several kinds, as in `RTX 3090 + RTX 3060`."""
    pieces = [piece for name in names(options.gpu) for piece in set_of(name)]
    if len(names(options.gpu)) > 1 or options.gpus > 1:
        raise BadValue(
            "a set of different GPUs cannot be combined with other GPUs", hint='try `--gpu "RTX 3090 + RTX 3060"` alone'
        )
    cards: list[Gpu] = []
    notes: list[Assumption] = []
    for piece in pieces:
        count, name = counted(piece.strip())
        found, taken = named_gpus([name])
        cards += list(found) * count
        notes += taken
    engine = options.engine or _LAYERED
    if "layers" not in find_engine(engine).splits:
        raise BadValue(
            f"{find_engine(engine).title} divides every matrix equally, so it cannot use different GPUs together",
            hint=f"use `--engine {_LAYERED}`, which assigns whole layers to each GPU",
        )
    asked = replace(options, engine=engine)
    kinds = list(dict.fromkeys(cards))
    query = language_query(
        options.model,
        asked,
        kinds,
        precision=options.precision,
        cpu=options.cpu,
        ram_speed=options.ram_speed,
        link=link,
        notes=notes,
    )
    title = " + ".join(gpu.name if cards.count(gpu) == 1 else f"{cards.count(gpu)}x {gpu.name}" for gpu in kinds)
    serving, gpu = mixed(query.serving, cards, title)
    layers = " and ".join(f"{round(part * serving.shape.layers)} on {the(one.name)}" for one, part in serving.shares)
    said = assumed(
        "layers", layers, "divided in proportion to the memory of each GPU, as in llama.cpp; only one GPU works at a time"
    )
    return replace(query, gpus=(gpu,), serving=serving, assumptions=(*query.assumptions, said))


def generates_unasked(model: str) -> bool:
    """Whether this is a language model that generates text where nothing says that it is trained: every decoder by its name or
    its sizes, except for models from before chat whose training is included."""
    if ":" in model or model.endswith((".py", ".gz")):
        return False
    if zoo.has(model) and zoo.entry(model).family in _RESEARCH:
        return False
    return language_shape(model) is not None


_INSTEAD = {"batch": "users", "seq": "prompt"}  # of a step, and what it is called where text is generated


def _check_step_options(options: LanguageOptions) -> None:
    """Refuse options of a step beside those of generating text: they would change nothing."""
    for name in ("batch", "seq", "phase", "compile", "stack", "input", "measured"):
        if getattr(options, name):
            instead = f"use `--{_INSTEAD[name]} {getattr(options, name)}`" if name in _INSTEAD else f"leave out `--{name}`"
            raise BadValue(f"`--{name}` applies to a single step, not to text generation", hint=instead)


def _asks_for_a_step(options: LanguageOptions) -> bool:
    sizes = (options.batch, options.seq, options.image, options.phase, options.input, options.rank is not None, options.targets)
    how = (options.optimizer, options.accumulate, options.checkpoint, options.compile, options.stack, options.measured)
    return any((*sizes, *how)) or bool(options.precision and options.precision not in SERVED_PRECISIONS)


def _format_name(
    model: str, shape: LanguageShape, options: AsksForText, precision: str, gpus: Sequence[Gpu], said: list[Assumption]
) -> str:
    """The form the weights are in, as the user or the publisher of the model has it."""
    text = options.weights or (precision if precision in SERVED_PRECISIONS else "")
    if text:
        found = find_format(text)
        names = [name for name, one in FORMATS.items() if one == found]
        return next((name for name in names if name == text.strip().lower()), names[0])
    published = published_format(model, shape)
    if published:
        said.append(assumed("weights", published, "the published format of this model; change it with `--weights`"))
        return published
    engine = find_engine(options.engine) if options.engine else None
    name = engine.default_format if engine else "fp16"
    if engine and any(refusal(engine, gpu, name) is not None for gpu in gpus) and name == "bf16":
        name = "fp16"  # what GPUs without bf16 run
    effect = f"the usual format for {engine.title}" if engine else "most models are published in 16 bits"
    smaller = "4-bit weights need a quarter of the memory; set them with `--weights q4_k_m`"
    said.append(assumed("weights", name, f"{effect}; {smaller if name in ('fp16', 'bf16') else 'change it with `--weights`'}"))
    return name


@lru_cache(maxsize=16384)
def _is_runnable(engine: str, gpu: Gpu, weights: str, kv: str) -> bool:
    """Return whether the engine runs these formats; to choose a GPU, this is asked thousands of times."""
    return refusal(engines()[engine], gpu, weights, kv) is None


def _engine(text: str, weights: str, kv: str, gpus: Sequence[Gpu], said: list[Assumption]) -> Engine:
    """The engine asked for, or the most usual one that runs these weights and this cache on all of these GPUs."""
    if text:
        return find_engine(text)
    named = preferred_engines(weights)

    def is_able(name: str) -> bool:
        return all(_is_runnable(name, gpu, weights, kv) for gpu in gpus)

    usual = next(filter(is_able, named), "")
    if not usual:
        raise _none_able(weights, kv, gpus)
    engine, last = engines()[usual], next(filter(is_able, reversed(named)))
    other = f"; change it with `--engine {last}`" if last != usual else ""
    said.append(assumed("engine", engine.title, f"the usual choice for these weights{other}"))
    return engine


def _not_native(engine: Engine, gpu: Gpu, weights: Format) -> str:
    """What happens to weights that this GPU cannot multiply as they are; nothing where it can."""
    native = weights.compute or ("bf16" if weights.name == "bf16" else "")
    if not native or any(native in peaks for peaks in gpu.peak_flops_per_s.values()):
        return ""
    start = f"{the(gpu.name)} has no units for {native}"
    if native == "bf16":
        return f"{start}, so {engine.title} computes in fp32, and prompts are read more slowly; use `--weights fp16`"
    return f"{start}, so {engine.title} unpacks the weights to 16 bits: they need less memory, but prompts are not read faster"


def _none_able(weights: str, kv: str, gpus: Sequence[Gpu]) -> BadValue:
    """Why no engine runs these weights on all of these GPUs: for one GPU, the reason of the most usual engine that has them."""
    for gpu in gpus if len(gpus) == 1 else ():
        known = [name for name in preferred_engines(weights) if weights in engines()[name].formats]
        faults = [refusal(engines()[name], gpu, weights, kv) for name in known if refusal(engines()[name], gpu) is None]
        if faults and faults[0] is not None:
            return faults[0]
    return BadValue(
        f"no engine supports {weights} weights on {' and '.join(the(gpu.name) for gpu in gpus)}",
        known=", ".join(engines()),
        hint="choose another format, such as `--weights q4_k_m`, or name fewer GPUs at once",
    )


def preferred_engines(weights: str) -> tuple[str, ...]:
    """Engines in the order in which they are tried for weights of this format, in every command: llama.cpp for formats that it
    runs on every GPU, else vLLM; where that does not run on a GPU, the next one that does."""
    return tuple(dict.fromkeys(("llama.cpp", *PREFERRED))) if weights in _IN_LLAMA_CPP else PREFERRED


def _lengths(shape: LanguageShape, options: AsksForText, said: list[Assumption]) -> tuple[int, int]:
    """Tokens of a prompt and an answer, within what the model can look back on."""
    longest = shape.context
    unasked = options.prompt is None and options.output is None and 0 < longest < _PROMPT + _OUTPUT
    within = options.context or (longest if unasked else None)
    output = options.output or min(_OUTPUT, max(1, (within or 2 * _OUTPUT) // 2))
    prompt = options.prompt or (max(1, within - output) if within else _PROMPT)
    if longest and (options.context or prompt + output) > longest:
        raise BadValue(
            f"{shape.name} supports at most {longest:,} tokens, but {options.context or prompt + output:,} were requested",
            hint=f"try `--context {longest}`" if options.context or output >= longest else f"try `--prompt {longest - output}`",
        )
    if options.context and prompt + output > options.context:
        raise BadValue(
            f"a prompt of {prompt:,} tokens and an output of {output:,} tokens do not fit in a context of {options.context:,}",
            hint="leave out `--context`, or shorten the prompt",
        )
    if options.prompt is None and options.context is None:
        said.append(assumed("prompt", f"{prompt:,} tokens", "typical for a chat turn; change it with `--prompt`"))
    if options.output is None:
        said.append(assumed("output", f"{output:,} tokens", "typical for a chat turn; change it with `--output`"))
    return prompt, output


def _split(engine: Engine, shape: LanguageShape, count: int, said: list[Assumption]) -> str:
    """How several GPUs share one model."""
    if count == 1:
        return ""
    if not engine.splits:
        raise BadValue(f"{engine.title} supports only one GPU per model", hint="use another engine, or leave out `--gpus`")
    split = usual_split(engine, shape.heads, count)
    if not split:
        raise BadValue(
            f"{engine.title} cannot divide the {shape.heads} attention heads of {shape.name} evenly among {count} GPUs",
            hint="use a number of GPUs that divides the heads, or `--engine llama.cpp`, which assigns whole layers to each GPU",
        )
    words = {
        "tensor": "divides every matrix among the GPUs",
        "layers": "gives each GPU some of the layers, so only one GPU works at a time",
    }
    said.append(assumed("gpus", f"{count} GPUs share one model", f"{engine.title} usually {words[split]}"))
    return split
