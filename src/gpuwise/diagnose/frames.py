"""Parses Python functions as profilers name them: `train.py(120): preprocess`, `nn.Module: Linear_3`, `<built-in method …>`."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

from gpuwise.trace.types import printable

__all__ = ["LIBRARY", "OWN", "PACKAGE", "Frame", "parse_frame"]

OWN, PACKAGE, LIBRARY = range(3)  # the owner of the code: the user, an installed package, or PyTorch and Python

_FRAME = re.compile(r"^(?P<path>.+?)\((?P<line>\d+)\): (?P<function>.+)$")
_BUILT_IN = re.compile(r"^<built-in (?:method|function) (?P<function>[^\s>]+)")
_INSTALLED = re.compile(r"(?:site|dist)-packages/")
_PACKAGES = frozenset(
    "accelerate albumentations apex bitsandbytes cv2 datasets deepspeed diffusers einops evaluate flash_attn flax fsspec h5py "
    "ignite imageio jax jaxlib keras lightning lightning_fabric lmdb matplotlib megatron mlflow numba numpy pandas peft PIL "
    "pyarrow pytorch_lightning ray requests scipy sentencepiece sglang skimage sklearn tensorboard tensorboardX tensorflow timm "
    "tokenizers torchaudio torchdata torchmetrics torchtext torchvision tqdm transformers trl urllib3 vllm wandb webdataset "
    "xformers zmq".split()
)
_FRAMEWORK = frozenset(("torch", "triton"))
_STANDARD = re.compile(r"(?:^|/)python3\.\d+/(?!(?:site|dist)-packages)")


@dataclass(frozen=True, slots=True)
class Frame:
    """One function, and where it is."""

    function: str
    place: str
    level: int

    def __str__(self) -> str:
        return f"{self.function} ({self.place})" if self.place else self.function


def parse_frame(name: str) -> Frame:
    """Return the function that a profiler's name refers to.

    >>> str(parse_frame("/data/me/image_processing.py(120): preprocess"))
    'preprocess (image_processing.py:120)'
    >>> parse_frame("torch/nn/modules/module.py(1501): _call_impl").level == LIBRARY
    True
    """
    found = _FRAME.match(printable(name))
    if found is None:
        built_in = _BUILT_IN.match(name)
        return Frame(function=printable(built_in["function"] if built_in else name), place="", level=LIBRARY)
    path = found["path"].replace("\\", "/")
    return Frame(function=found["function"], place=f"{path.rpartition('/')[2]}:{found['line']}", level=_level(path))


def _level(path: str) -> int:
    if (
        (path.startswith("<") and "ipython" not in path and "stdin" not in path)
        or _STANDARD.search(path)
        or "torchinductor_" in path
    ):
        return LIBRARY
    installed = _INSTALLED.split(path)
    inside = installed[-1].lstrip("/")
    top = inside.partition("/")[0].removesuffix(".py")
    if top in _FRAMEWORK or (top in sys.stdlib_module_names and len(installed) == 1 and not path.startswith("/")):
        return LIBRARY
    return PACKAGE if len(installed) > 1 or ("/" in inside and top in _PACKAGES) else OWN
