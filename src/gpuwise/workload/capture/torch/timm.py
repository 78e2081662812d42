"""`timm:NAME`: models from pytorch-image-models, without weights."""

from __future__ import annotations

import difflib
from typing import Any

from gpuwise.core.errors import MissingExtra, UnknownName
from gpuwise.core.text import either
from gpuwise.workload.capture.request import Request
from gpuwise.workload.capture.torch.torchvision import import_torchvision

__all__ = ["subject"]


def subject(request: Request) -> Any:
    """Return the model with that name on images of its default size."""
    from gpuwise.workload.capture.torch.images import image_subject

    import_torchvision()
    try:
        import timm
    except ImportError:
        raise MissingExtra("timm", extra="timm", needed_for="capturing a timm model") from None
    name = request.model.partition(":")[2]
    if not timm.is_model(name):
        near = difflib.get_close_matches(name, timm.list_models(), n=3, cutoff=0.5)
        hint = (
            "did you mean " + either(f"`timm:{other}`" for other in near) + "?"
            if near
            else "list all models with timm.list_models()"
        )
        raise UnknownName(f"timm has no model '{name}'", looked_in=f"{len(timm.list_models()):,} models", hint=hint)
    as_benchmarked = request.variant == "fast-norm"
    timm.layers.set_fast_norm(as_benchmarked)  # norms in 16 bits under autocast, an option of its benchmarks
    config = timm.get_pretrained_cfg(name)
    default = config.input_size[-1] if config is not None else 224
    size = request.image or default
    options = {"img_size": size} if request.image and request.image != default and _takes_size(timm, name) else {}

    def build() -> Any:
        model = timm.create_model(name, pretrained=False, **options)
        # Its inference results list the parameters of models whose parallel branches have been merged.
        return timm.utils.reparameterize_model(model, inplace=True) if as_benchmarked else model

    return image_subject(build, size)


def _takes_size(timm: Any, name: str) -> bool:
    """Whether the model is built for one image size (vision transformers) rather than for any (convolutions)."""
    config = timm.get_pretrained_cfg(name)
    return bool(config is not None and config.fixed_input_size)
