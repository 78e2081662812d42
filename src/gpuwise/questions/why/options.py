"""The options of `why`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Optional

from gpuwise.core.errors import BadValue
from gpuwise.questions.common.options import Names, Option

__all__ = ["FORMATS", "WhyLooks", "WhyOptions"]

FORMATS = ("text", "markdown", "html")
_FILES = (
    "Traces (torch.profiler, TensorFlow, JAX, Nsight Systems, rocprofv3, rocmProfileData), PyTorch memory snapshots, NCCL flight "
    "recorder dumps, key_averages tables, or GPU readings (nvidia-smi, dcgmi, W&B), which can accompany a trace. Use a folder "
    "or pattern for several ranks."
)
_EACH = "For many runs: diagnose each file, or each folder of ranks, separately (file or folder)."
_ON = "For many runs: where to run (processes:4, dask://host:port); implies --each file."


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyLooks:
    """How the diagnosis is shown."""

    format: Annotated[str, Option(help="The output format: text, markdown or html.")] = "text"

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise BadValue(f"unknown format '{self.format}'", known=", ".join(FORMATS), hint="try `--format html`")


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyOptions:
    """Explain why training is slow: show where the step time goes, and rank the causes by the gain from fixing them."""

    LOOKS: ClassVar[type] = WhyLooks

    files: Annotated[Names, Option(help=_FILES, argument=True, metavar="FILE...", page=False)] = field(kw_only=False)
    model: Annotated[str, Option(help="The model that ran; its step time is compared with the prediction.", page=False)] = ""
    gpu: Annotated[str, Option(help="The GPU, if the trace does not name it.")] = ""
    compare: Annotated[str, Option(help="Another trace to compare with; gpuwise explains the difference.", page=False)] = ""
    each: Annotated[str, Option(help=_EACH, page=False)] = ""
    on: Annotated[str, Option(help=_ON, page=False)] = ""
    out: Annotated[
        Optional[Path], Option(help="For many runs: write the table to this .parquet, .csv or .jsonl file.", page=False)
    ] = None
    fresh: Annotated[bool, Option(help="For many runs: discard earlier results.", page=False)] = False
