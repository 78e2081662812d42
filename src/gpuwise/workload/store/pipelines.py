"""What a program that makes images runs: text encoders once, the denoiser at every step, the decoder for every image.

All are models of the zoo, each at the size that the denoiser works at.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuwise.workload.store import zoo

__all__ = ["Pipeline", "makes_images", "pipeline_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The models around a denoiser, by their names in the zoo. With guidance the denoiser and the text encoders see every image
    (or prompt) twice: with what is wanted, and with what is not."""

    denoiser: str
    texts: tuple[str, ...]
    decoder: str
    passes: int = 2

    @property
    def parameters(self) -> int:
        """Weights of all models together."""
        return sum(zoo.entry(name).parameters for name in (self.denoiser, *self.texts, self.decoder))


_TEXTS_OF_XL = ("clip_l_text", "clip_big_g_text")
_PIPELINES = (
    Pipeline(denoiser="sd15_unet", texts=("clip_l_text",), decoder="sd_vae_decoder"),
    Pipeline(denoiser="sd2_unet", texts=("clip_h_text",), decoder="sd_vae_decoder"),
    Pipeline(denoiser="sdxl_unet", texts=_TEXTS_OF_XL, decoder="sd_vae_decoder_1024"),
    Pipeline(denoiser="sdxl_unet_512", texts=_TEXTS_OF_XL, decoder="sd_vae_decoder"),
)


def makes_images(model: str) -> bool:
    """Whether the name is that of a whole program that makes images, not of its denoiser."""
    found = pipeline_of(model) if zoo.has(model) else None
    return found is not None and zoo.key(model) != zoo.key(found.denoiser)


def pipeline_of(model: str) -> Pipeline | None:
    """The pipeline around the denoiser of this name or alias, if it is known."""
    name = zoo.entry(model).name if zoo.has(model) else model
    return next((found for found in _PIPELINES if found.denoiser == name), None)
