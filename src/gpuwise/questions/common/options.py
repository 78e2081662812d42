"""How a question is exposed: its options are declared once, as a dataclass whose fields describe themselves; its answer is
`Shown`.

The command line, the page's JSON API, its reference and the Python functions are all derived from that dataclass:

    @dataclass(frozen=True, slots=True, kw_only=True)
    class PredictOptions:
        "Predict the time and memory of a step."
        model: Annotated[str, Option(help="...", argument=True)] = field(kw_only=False)
        gpu: Annotated[Names, Option(help="...")] = ()

A field has the same name everywhere: `--power-limit`, `power_limit=`, `"power_limit"`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Optional, Union, get_args, get_origin, get_type_hints

__all__ = [
    "Accumulate",
    "Batch",
    "ChannelsLast",
    "Checkpoint",
    "Compile",
    "Cpu",
    "CurrencyRate",
    "Declared",
    "DenoisingSteps",
    "GpuCount",
    "GpuNames",
    "Image",
    "Inputs",
    "Link",
    "LoaderRate",
    "Measured",
    "Method",
    "Mode",
    "Model",
    "Names",
    "Optimizer",
    "Option",
    "Pcie",
    "Phase",
    "PowerLimit",
    "Precision",
    "PriceFile",
    "Prices",
    "Question",
    "RamSpeed",
    "Rank",
    "Seq",
    "Shown",
    "Stack",
    "Targets",
    "Timeout",
    "declared",
    "names",
]

Names = Union[str, Sequence[str]]  # one name, or several
_MOST_SAMPLES = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """How a field is presented to users. `low` and `high` bound a number, `most` the length of a list; an `argument` has a
    position on the command line instead of a flag; a `flag` may have a short form after a space (`--output -o`). The page
    never accepts the user's files and code (`page=False`).
    """

    help: str
    flag: str = ""
    metavar: str = ""
    argument: bool = False
    low: float | None = None
    high: float | None = None
    above: float | None = None
    least: int = 0
    most: int = 16
    page: bool = True


class Declared(NamedTuple):
    """A field as the surfaces see it: its type (`names`, `text`, `size`, `amount`, `whole`, `number`, `flag` or `file`),
    whether it may be omitted, and its default.
    """

    name: str
    kind: str
    option: Option
    required: bool
    optional: bool
    default: Any


@cache
def declared(options: type) -> tuple[Declared, ...]:
    """All fields of an options class, in order."""
    hints = get_type_hints(options, include_extras=True)
    found = []
    for one in fields(options):
        hint, *notes = get_args(hints[one.name])
        (option,) = (note for note in notes if isinstance(note, Option))
        parts = set(get_args(hint)) if get_origin(hint) is Union else {hint}
        kind = _kind(hint, parts - {type(None)})
        default = one.default if one.default is not MISSING else None
        found.append(Declared(one.name, kind, option, one.default is MISSING, type(None) in parts, default))
    return tuple(found)


def _kind(hint: Any, parts: set[Any]) -> str:
    if hint == Names or any(get_origin(part) in (tuple, list) for part in parts):
        return "names"
    if parts == {int, str}:
        return "size"
    if parts == {float, str}:
        return "amount"
    kinds = {str: "text", int: "whole", float: "number", bool: "flag", Path: "file"}
    (part,) = parts
    return kinds[part]


def names(given: Names) -> tuple[str, ...]:
    """One name or several, as several.

    >>> names("RTX 3090"), names(["RTX 3090", "T4"])
    (('RTX 3090',), ('RTX 3090', 'T4'))
    """
    return (given,) if isinstance(given, str) else tuple(given)


# ---------------------------------------------------------------- options that several questions share, so that they read alike

_MODEL = "A built-in name, a workload file, timm:NAME, torchvision:NAME, hf:ID, keras:NAME, config.json or file.py:Net."
Model = Annotated[str, Option(help=_MODEL, argument=True)]
GpuNames = Annotated[Names, Option(help="A GPU name or custom specs; may be repeated.")]
GpuCount = Annotated[int, Option(help="The number of GPUs of each kind.", low=1, high=4096)]
Batch = Annotated[
    Union[int, str, None],
    Option(help="Samples per step on each GPU, or auto for the largest batch that fits.", low=1, high=_MOST_SAMPLES),
]
Seq = Annotated[Optional[int], Option(help="The sequence length in tokens.", low=1, high=_MOST_SAMPLES)]
Image = Annotated[Optional[int], Option(help="The image size in pixels.", low=1, high=_MOST_SAMPLES)]
Precision = Annotated[str, Option(help="The precision: fp32, tf32, fp16, bf16, amp, amp-bf16 or fp8.")]
Mode = Annotated[str, Option(help="The mode: train or infer (default: infer for language models, train for all others).")]
Optimizer = Annotated[str, Option(help="The optimizer: none, sgd, momentum, adam, adamw, adafactor, lion or adam8bit.")]
Phase = Annotated[str, Option(help="The text generation phase: prefill or decode.")]
Compile = Annotated[bool, Option(help="Assume that the model is compiled with torch.compile.")]
ChannelsLast = Annotated[bool, Option(help="Use the channels-last (NHWC) memory layout.")]
Accumulate = Annotated[
    Optional[int], Option(help="The number of micro-batches accumulated into one step.", low=1, high=_MOST_SAMPLES)
]
Checkpoint = Annotated[bool, Option(help="Recompute the activations of repeated blocks instead of storing them.")]
Method = Annotated[str, Option(help="The training method: full (all weights), or an adapter method (lora, qlora or dora).")]
Rank = Annotated[Optional[int], Option(help="The adapter rank (default: 16).", low=1, high=2**16)]
Targets = Annotated[
    str, Option(help="The linear layers that get adapters: all, attention, mlp, qkv, qv, or names separated by commas.")
]
Inputs = Annotated[Names, Option(help="The shape and type of an input: x=batch,3,224,224:fp32.", page=False)]
Stack = Annotated[str, Option(help="The software version, such as torch-2.4 or tf-2.4.")]
Cpu = Annotated[str, Option(help="The host CPU: desktop, laptop, server, or a CPU name.")]
Pcie = Annotated[str, Option(help="The link to the GPU, such as 'PCIe 3.0 x8'; adds the time to copy inputs.")]
RamSpeed = Annotated[
    str, Option(help="The speed of the host's RAM, for weights or states kept there: DDR5-6000, '8x DDR5-4800' or 90GB/s.")
]
Link = Annotated[str, Option(help="The link between several GPUs: 'PCIe 3.0 x8', NVLink, 'PCIe 4.0 x16, no p2p'.")]
DenoisingSteps = Annotated[
    Optional[int],
    Option(help="The number of denoising steps per image (default: the usual number for the model).", low=1, high=10_000),
]
LoaderRate = Annotated[
    Optional[float], Option(help="The number of samples per second that the data loader delivers.", above=0, high=1e12)
]
PowerLimit = Annotated[str, Option(help="A power limit below the GPU's default, such as 250W.")]
Measured = Annotated[Names, Option(help="A step time that you measured: 'RTX 3090=412ms'; may be repeated.")]
Timeout = Annotated[float, Option(help="The time limit for a capture, in seconds.", page=False)]
Prices = Annotated[Names, Option(help="Your own price for a GPU: 'RTX 3090=700'; may be repeated.")]
PriceFile = Annotated[Optional[Path], Option(help="A TOML file with your own prices.", page=False)]
CurrencyRate = Annotated[str, Option(help="Your currency and its value in US dollars, such as EUR=1.08.")]


# ---------------------------------------------------------------- what every answer can do for a person who looks at it

# Named and not imported: answers must not depend on their looks (docs/decisions/0019-answers-name-their-looks.md).
_LOOKS = "gpuwise.surfaces.notebook"


class Shown:
    """An answer that can be displayed. `TEXT` and `FIGURE` name the functions that render and draw it; `says_no` is true if
    the answer is "no", which `--strict` turns into an exit code."""

    __slots__ = ()
    TEXT: ClassVar[str]
    FIGURE: ClassVar[str] = ""

    @property
    def says_no(self) -> bool:
        return False

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 0, or the exit code of the program that it ran."""
        return 0

    def __init_subclass__(cls) -> None:
        """IPython uses the first `__repr__` or `_repr_pretty_` that it finds, and a dataclass defines its own `__repr__`."""
        cls._repr_pretty_ = Shown._repr_pretty_  # type: ignore[method-assign]

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data, with the keys of the JSON contract."""
        raise NotImplementedError

    def __str__(self) -> str:
        """The text that the command line prints."""
        return str(_looks().text_of(self))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The same text for IPython in a terminal."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """The text and the chart, for Jupyter."""
        return str(_looks().html_of(self))

    def figure(self, **options: Any) -> Any:
        """The chart of this answer as a Plotly figure. `which` and `charts` have several charts (`chart="value"`), and
        `validate` has four groupings (`by`)."""
        return _looks().plotly_of(self, **options)


def _looks() -> Any:
    return import_module(_LOOKS)


@dataclass(frozen=True, slots=True)
class Question:
    """A question; its modules are imported on first use. `example` is a command that works; `page` says whether the page
    offers it too, and `group` is its heading in the help.
    """

    name: str
    example: str
    page: bool = False
    group: str = ""

    @property
    def options(self) -> type:
        """The dataclass that declares its options: `questions/<name>/options.py`."""
        found: type = getattr(import_module(f"gpuwise.questions.{self.name}.options"), f"{self.name.capitalize()}Options")
        return found

    @property
    def answer(self) -> Callable[..., Any]:
        """The function from options (and a progress callback) to the answer: `questions/<name>/answer.py`."""
        found: Callable[..., Any] = import_module(f"gpuwise.questions.{self.name}.answer").answer
        return found
