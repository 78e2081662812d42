"""The two phases of generating text: prefill (read the prompt, fill the KV cache) and decode (one token over a full cache).

The cache is preallocated and written in place, as serving engines do: prefill stores keys and values in addition to the attention
that uses them; decode stores one position and attends to all of them. `seq` is the number of cached positions, including the new
token. A layer with a sliding window keeps no more than its window.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers import cache_utils
from transformers.modeling_outputs import BaseModelOutput

from gpuwise.core.errors import BadValue

__all__ = ["PHASES", "Generation"]

PHASES = ("prefill", "decode")
_PROBE = 8  # positions in the run that shows the size of a layer's keys and values


@dataclass(frozen=True, slots=True)
class _Layer:
    """The data that one layer caches per sequence and position; `window` is 0 if the layer has none."""

    heads: int
    key_width: int
    value_width: int
    window: int


class _Slot(cache_utils.CacheLayerMixin):
    """The cache of one layer, allocated for `total` positions (or its window), of which `seen` are filled before the step."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, seen: int, total: int, sliding: bool) -> None:
        super().__init__()
        self.is_sliding = sliding
        self.keys, self.values, self.is_initialized = keys, values, True
        self._seen, self._total = seen, total

    def lazy_initialization(self, *tensors: Any) -> None:
        """Does nothing: the tensors already exist."""

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """Store the new positions in place. The first positions are used directly; later ones are used together with the whole
        cache.
        """
        kept, new = self.keys.shape[-2], min(key_states.shape[-2], self.keys.shape[-2])
        for store, states in ((self.keys, key_states), (self.values, value_states)):
            store[:, :, kept - new :].copy_(states[:, :, states.shape[-2] - new :])
        return (self.keys, self.values) if self._seen else (key_states, value_states)

    def get_mask_sizes(self, query: Any) -> tuple[int, int]:
        if not self._seen:
            return (query if isinstance(query, int) else query.shape[0]), 0
        return self.keys.shape[-2], self._total - self.keys.shape[-2]

    def get_seq_length(self, *args: Any) -> int:
        return self._seen

    def get_max_length(self) -> int:
        return -1

    get_max_cache_shape = get_max_length


class Generation:
    """Inputs and step of one phase. `built` returns the model once it exists; the size of its cache is found by running it."""

    def __init__(
        self, phase: str, built: Callable[[], Any], dtype: torch.dtype, source: Callable[[int, int], dict[str, Any]]
    ) -> None:
        self._phase, self._built, self._dtype, self._source = phase, built, dtype, source
        self._layers: tuple[list[_Layer], list[_Layer]] | None = None

    def inputs(self, batch: int, seq: int | None) -> dict[str, Any]:
        """Return the tokens, the cache and, for encoder-decoders, the encoder's input or output."""
        model, length = self._built(), seq or 1
        own, cross = self._shapes(model)
        source = self._source(batch, length)
        if not model.config.is_encoder_decoder:
            tokens = torch.zeros(batch, length if self._phase == "prefill" else 1, dtype=torch.int64)
            return {"tokens": tokens, "own": self._tensors(own, batch, length), "cross": [], "length": length}
        encoded = _encoded_length(model, source)
        if self._phase == "prefill":
            length = 1
        else:
            source = {"encoder": torch.randn(batch, encoded, model.config.hidden_size, dtype=self._dtype)}
        tokens = torch.zeros(batch, 1, dtype=torch.int64)
        caches = {"own": self._tensors(own, batch, length), "cross": self._tensors(cross, batch, encoded)}
        return {"tokens": tokens, "length": length, "source": source} | caches

    def forward(self, model: Any, batch: dict[str, Any], training: bool) -> Any:
        """Return the scores of the last token; the cache is written on the way."""
        seen = max(1, batch["length"] - 1) if self._phase == "decode" else 0
        own = _cache(
            [
                _Slot(keys, values, seen, batch["length"], bool(layer.window))
                for (keys, values), layer in zip(batch["own"], self._shapes(model)[0], strict=True)
            ]
        )
        options: dict[str, Any] = {"use_cache": True}
        if "logits_to_keep" in inspect.signature(model.forward).parameters:
            options["logits_to_keep"] = 1
        if not model.config.is_encoder_decoder:
            return model(input_ids=batch["tokens"], past_key_values=own, **options).logits
        read = [(keys, values, keys.shape[-2]) for keys, values in batch["cross"]]
        cross = _cache([_Slot(keys, values, length if seen else 0, length, False) for keys, values, length in read])
        source = dict(batch["source"])
        if "encoder" in source:
            source = {"encoder_outputs": BaseModelOutput(last_hidden_state=source["encoder"])}
        both = cache_utils.EncoderDecoderCache(own, cross)
        return model(**source, decoder_input_ids=batch["tokens"], past_key_values=both, **options).logits

    def _tensors(self, layers: list[_Layer], batch: int, length: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        def stored(layer: _Layer, width: int) -> torch.Tensor:
            kept = min(length, layer.window or length)
            return torch.zeros(batch, layer.heads, kept, width, dtype=self._dtype)

        return [(stored(layer, layer.key_width), stored(layer, layer.value_width)) for layer in layers]

    def _shapes(self, model: Any) -> tuple[list[_Layer], list[_Layer]]:
        if self._layers is None:
            self._layers = _probe(model, self._source(1, _PROBE))
        return self._layers


def _cache(layers: list[_Slot]) -> Any:
    return cache_utils.Cache(layers=layers)


def _probe(model: Any, source: dict[str, Any]) -> tuple[list[_Layer], list[_Layer]]:
    """Run the model once on a few tokens and read from its own cache what each layer keeps."""
    tokens = torch.zeros(1, _PROBE, dtype=torch.int64)
    both = model.config.is_encoder_decoder
    dtype = next(model.parameters()).dtype
    source = {name: value.to(dtype) if value.is_floating_point() else value for name, value in source.items()}
    inputs = {**source, "decoder_input_ids": tokens} if both else {"input_ids": tokens}
    with torch.inference_mode():
        filled: Any = getattr(model(**inputs, use_cache=True), "past_key_values", None)
    caches = (filled.self_attention_cache, filled.cross_attention_cache) if hasattr(filled, "self_attention_cache") else (filled,)
    layers = [_layers(cache) for cache in caches]
    if not all(layers):
        raise BadValue(
            f"{type(model).__name__} caches more than keys and values, so its phases cannot be captured separately",
            hint="leave out --phase to capture a plain forward pass",
        )
    return layers[0], layers[1] if len(layers) > 1 else []


def _layers(cache: Any) -> list[_Layer]:
    found = []
    for layer in getattr(cache, "layers", ()):
        keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
        if keys is None or values is None or keys.dim() != 4 or values.dim() != 4:
            return []
        window = layer.sliding_window if getattr(layer, "is_sliding", False) else 0
        found.append(_Layer(keys.shape[1], keys.shape[3], values.shape[3], int(window or 0)))
    return found


def _encoded_length(model: Any, source: dict[str, Any]) -> int:
    """Return how many positions the encoder outputs: one per token, or what remains of the audio after its convolutions."""
    if "input_ids" in source:
        return int(source["input_ids"].shape[1])
    return int(model.config.max_source_positions)
