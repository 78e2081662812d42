"""What `why` takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Optional

from gpuwise.core.errors import BadValue
from gpuwise.questions.common.options import Names, Option

__all__ = ["FORMATS", "WhyLooks", "WhyOptions"]

FORMATS = ("text", "markdown", "html")
_FILES = "Traces of torch.profiler, TensorFlow, JAX or Nsight Systems (sqlite); a folder or pattern for several ranks."
_EACH = "Many runs: diagnose every file, or every folder of ranks, separately (file or folder)."
_ON = "Many runs: where to work (processes:4, dask://host:port); implies --each file."


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyLooks:
    """How the diagnosis is shown."""

    format: Annotated[str, Option(help="text, markdown or html.")] = "text"

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise BadValue(f"unknown format '{self.format}'", looked_in=", ".join(FORMATS), hint="for example `--format html`")


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyOptions:
    """Say why a training is slow: what a step is made of, its causes by what fixing them gives, what the trace cannot tell."""

    LOOKS: ClassVar[type] = WhyLooks

    files: Annotated[Names, Option(help=_FILES, argument=True, metavar="FILE...", page=False)] = field(kw_only=False)
    model: Annotated[str, Option(help="The model that ran; its step is compared with our prediction.", page=False)] = ""
    gpu: Annotated[str, Option(help="The GPU, where the trace does not name it.")] = ""
    compare: Annotated[str, Option(help="Another trace; explain the difference between the two.", page=False)] = ""
    each: Annotated[str, Option(help=_EACH, page=False)] = ""
    on: Annotated[str, Option(help=_ON, page=False)] = ""
    out: Annotated[Optional[Path], Option(help="Many runs: write the table to this .parquet, .csv or .jsonl.", page=False)] = None
    fresh: Annotated[bool, Option(help="Many runs: discard the results of an earlier run.", page=False)] = False
