"""What an image-generation program runs: text encoders once, the denoiser at every step, the decoder for every image.

All are models in the zoo. U-Nets and decoders are stored at two sizes and rescaled to others (`zoo.load`). For a diffusion
transformer, the image is the sequence, with one token for each patch of 16 x 16 pixels.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuwise.workload.store import zoo

__all__ = ["PATCH", "STEP", "Pipeline", "makes_images", "pipeline_of", "pipelines"]

STEP = 64  # pixels: sides are multiples of it, so that every level of a network halves evenly
PATCH = 16  # pixels per side that one transformer token represents


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The models around a denoiser, by their names in the zoo. With guidance (two `passes`), the denoiser and the text encoders
    process every image (or prompt) twice: with the positive and with the negative prompt. A `control` net runs before every
    denoiser step. `image` is the default side in pixels, `steps` is the default number of steps, and `tokens` is the number of
    tokens that T5 reads. `names` are common names of the whole program that the zoo does not list as names of its denoiser.
    """

    denoiser: str
    texts: tuple[str, ...]
    decoder: str
    image: int
    passes: int = 2
    steps: int = 20
    control: str = ""
    tokens: int = 0
    names: tuple[str, ...] = ()

    @property
    def is_measured(self) -> bool:
        """Whether whole calls of this pipeline were measured on GPUs."""
        return self.denoiser in _MEASURED and not self.control and self.passes == 2

    @property
    def models(self) -> tuple[str, ...]:
        """All models, the denoiser first."""
        return (self.denoiser, *((self.control,) if self.control else ()), *self.texts, self.decoder)

    @property
    def parameters(self) -> int:
        """Weights of all models together."""
        return sum(zoo.entry(name).parameters for name in self.models)


_XL = ("clip_l_text", "clip_big_g_text")
_VAE, _VAE_1024, _VAE16 = "sd_vae_decoder", "sd_vae_decoder_1024", "vae16_decoder_1024"
_FLUX = "flux_transformer"
_MEASURED = ("sd15_unet", "sd2_unet", "sdxl_unet", "sdxl_unet_512")
_PIPELINES = (
    Pipeline(denoiser="sd15_unet", texts=("clip_l_text",), decoder=_VAE, image=512),
    Pipeline(denoiser="sd2_unet", texts=("clip_h_text",), decoder=_VAE, image=512),
    Pipeline(denoiser="sdxl_unet", texts=_XL, decoder=_VAE_1024, image=1024),
    Pipeline(denoiser="sdxl_unet_512", texts=_XL, decoder=_VAE, image=512),
    Pipeline(denoiser="sd3_transformer", texts=(*_XL, "t5_xxl_text"), decoder=_VAE16, image=1024, steps=28, tokens=256),
    Pipeline(denoiser="sd35_large_transformer", texts=(*_XL, "t5_xxl_text"), decoder=_VAE16, image=1024, steps=28, tokens=256),
    Pipeline(denoiser=_FLUX, texts=("clip_l_text", "t5_xxl_text"), decoder=_VAE16, image=1024, passes=1, steps=28, tokens=512),
    Pipeline(
        denoiser=_FLUX,
        texts=("clip_l_text", "t5_xxl_text"),
        decoder=_VAE16,
        image=1024,
        passes=1,
        steps=4,
        tokens=512,
        names=("flux-schnell", "flux.1-schnell", "flux1-schnell"),
    ),
    Pipeline(denoiser="sdxl_unet_512", texts=_XL, decoder=_VAE, image=512, passes=1, steps=1, names=("sdxl-turbo",)),
    Pipeline(
        denoiser="sd15_unet",
        texts=("clip_l_text",),
        decoder=_VAE,
        image=512,
        control="sd15_controlnet_512",
        names=("sd15-controlnet", "controlnet-sd15", "sd1.5-controlnet"),
    ),
    Pipeline(
        denoiser="sdxl_unet",
        texts=_XL,
        decoder=_VAE_1024,
        image=1024,
        control="sdxl_controlnet_1024",
        names=("sdxl-controlnet", "controlnet-sdxl"),
    ),
)


def pipelines() -> tuple[Pipeline, ...]:
    """Return all pipelines."""
    return _PIPELINES


def makes_images(model: str) -> bool:
    """Return whether the name is that of a whole image-generation program rather than its denoiser."""
    found = pipeline_of(model)
    return found is not None and zoo.key(model) != zoo.key(found.denoiser)


def pipeline_of(model: str) -> Pipeline | None:
    """Return the pipeline with this name, or around the denoiser with this name or alias, if it is known."""
    wanted = zoo.key(zoo.own_name(model))
    own = next((found for found in _PIPELINES if wanted in map(zoo.key, found.names)), None)
    if own is not None or not zoo.has(model):
        return own
    name = zoo.entry(model).name
    return next((found for found in _PIPELINES if found.denoiser == name and not found.names), None)
