"""Speech synthesis: Tacotron 2 and WaveGlow."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, dropout, linear, mse_loss, relu

from gpuwise.workload.capture.torch.step import Subject
from zoo.model import Model, plain

__all__ = ["models"]

_FRAMES = 64
_CHARACTERS = 96


def _conv(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv1d(before, after, 5, padding=2), nn.BatchNorm1d(after))


class _Cell(nn.Module):
    """An LSTM cell as CUDA runs it: two matrix products and one fused kernel for the gates."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        self.weight_in, self.weight_hidden = (
            nn.Parameter(torch.empty(4 * width, before)),
            nn.Parameter(torch.empty(4 * width, width)),
        )
        self.bias_in, self.bias_hidden = nn.Parameter(torch.empty(4 * width)), nn.Parameter(torch.empty(4 * width))

    def forward(self, x: Any, hidden: Any, cell: Any) -> Any:
        gates, more = linear(x, self.weight_in), linear(hidden, self.weight_hidden)
        biases = (bias.to(gates.dtype) for bias in (self.bias_in, self.bias_hidden))
        return torch.ops.aten._thnn_fused_lstm_cell(gates, more, cell.to(gates.dtype), *biases)[:2]


class _Attention(nn.Module):
    """Additive attention that takes its previous weights into account (Chorowski et al. 2015)."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.memory = nn.Linear(1024, 128, bias=False), nn.Linear(512, 128, bias=False)
        self.location, self.location_dense = nn.Conv1d(2, 32, 31, padding=15, bias=False), nn.Linear(32, 128, bias=False)
        self.score = nn.Linear(128, 1, bias=False)

    def forward(self, query: Any, memory: Any, keys: Any, seen: Any, mask: Any) -> Any:
        where = self.location_dense(self.location(seen).transpose(1, 2))
        energy = self.score(torch.tanh(self.query(query.unsqueeze(1)) + where + keys)).squeeze(-1)
        weights = torch.softmax(energy.masked_fill(mask, float("-inf")), 1)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1), weights


class _Tacotron(nn.Module):
    """Characters to mel frames: convolutions and a bidirectional LSTM, then a decoder that runs frame by frame."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(148, 512)
        self.encoder = nn.ModuleList(_conv(512, 512) for _ in range(3))
        self.lstm = nn.LSTM(512, 256, bidirectional=True, batch_first=True)
        self.prenet = nn.ModuleList((nn.Linear(80, 256, bias=False), nn.Linear(256, 256, bias=False)))
        self.attention, self.listen, self.speak = _Attention(), _Cell(768, 1024), _Cell(1536, 1024)
        self.mel, self.gate = nn.Linear(1536, 80), nn.Linear(1536, 1)
        sizes = (80, 512, 512, 512, 512, 80)
        self.postnet = nn.ModuleList(_conv(before, after) for before, after in pairwise(sizes))

    def forward(self, text: Any, mels: Any, mask: Any) -> Any:
        x = self.embedding(text).transpose(1, 2)
        for layer in self.encoder:
            x = dropout(relu(layer(x)), 0.5, self.training)
        memory = self.lstm(x.transpose(1, 2))[0]
        frames, gates = self._decoded(memory, mels, mask)
        polished = frames
        for number, layer in enumerate(self.postnet):
            y = layer(polished)
            polished = dropout(torch.tanh(y) if number < 4 else y, 0.5, self.training)
        return frames, frames + polished, gates

    def _decoded(self, memory: Any, mels: Any, mask: Any) -> Any:
        keys = self.attention.memory(memory)
        before = mels.permute(2, 0, 1)
        for layer in self.prenet:
            before = dropout(relu(layer(before)), 0.5, True)
        batch, length = memory.shape[:2]
        hidden, cell, hidden_two, cell_two = (memory.new_zeros(batch, 1024) for _ in range(4))
        context, weights, total = memory.new_zeros(batch, 512), memory.new_zeros(batch, length), memory.new_zeros(batch, length)
        frames, gates = [], []
        for frame in before.unbind(0):
            hidden, cell = self.listen(torch.cat((frame, context), -1), hidden, cell)
            hidden = dropout(hidden, 0.1, self.training)
            context, weights = self.attention(hidden, memory, keys, torch.stack((weights, total), 1), mask)
            total = total + weights
            hidden_two, cell_two = self.speak(torch.cat((hidden, context), -1), hidden_two, cell_two)
            hidden_two = dropout(hidden_two, 0.1, self.training)
            out = torch.cat((hidden_two, context), 1)
            frames.append(self.mel(out))
            gates.append(self.gate(out))
        return torch.stack(frames, 2), torch.cat(gates, 1)


def _tacotron() -> Subject:
    def inputs(batch: int, seq: int | None) -> Any:
        text = torch.zeros(batch, _CHARACTERS, dtype=torch.int64)
        return (
            text,
            torch.randn(batch, 80, _FRAMES),
            torch.zeros(batch, _CHARACTERS, dtype=torch.bool),
            torch.zeros(batch, _FRAMES),
        )

    def forward(model: nn.Module, batch: Any, training: bool) -> Any:
        text, mels, mask, stops = batch
        frames, polished, gates = model(text, mels, mask)
        if not training:
            return polished
        return mse_loss(frames, mels) + mse_loss(polished, mels) + binary_cross_entropy_with_logits(gates, stops)

    note = (
        f"{_FRAMES} mel frames ({_FRAMES * 256 / 22050:.1f} s of speech) and {_CHARACTERS} characters; time "
        "grows with the number of frames"
    )
    return Subject(build=_Tacotron, inputs=inputs, forward=forward, notes=(note,))


# ---------------------------------------------------------------- WaveGlow

_SEGMENT = 8000


def _weighted(layer: nn.Module) -> nn.Module:
    return nn.utils.weight_norm(layer)


class _Wave(nn.Module):
    """Eight dilated convolutions with gates, conditioned on the mel frames."""

    def __init__(self, half: int, width: int = 512, condition: int = 640, layers: int = 8) -> None:
        super().__init__()
        self.width = width
        self.start, self.end = _weighted(nn.Conv1d(half, width, 1)), nn.Conv1d(width, 2 * half, 1)
        self.condition = nn.ModuleList(_weighted(nn.Conv1d(condition, 2 * width, 1)) for _ in range(layers))
        self.into = nn.ModuleList(
            _weighted(nn.Conv1d(width, 2 * width, 3, dilation=2**number, padding=2**number)) for number in range(layers)
        )
        outs = [2 * width] * (layers - 1) + [width]
        self.out = nn.ModuleList(_weighted(nn.Conv1d(width, out, 1)) for out in outs)

    def forward(self, audio: Any, mels: Any) -> Any:
        x, total = self.start(audio), None
        for into, condition, out in zip(self.into, self.condition, self.out, strict=True):
            one, two = (into(x) + condition(mels)).chunk(2, 1)
            y = out(torch.tanh(one) * torch.sigmoid(two))
            if y.shape[1] > self.width:
                x, y = x + y[:, : self.width], y[:, self.width :]
            total = y if total is None else total + y
        return self.end(total)


class _WaveGlow(nn.Module):
    """Twelve flows on groups of eight samples; two channels leave after every fourth."""

    def __init__(self) -> None:
        super().__init__()
        self.widen = nn.ConvTranspose1d(80, 80, 1024, 256)
        channels = [8 - 2 * (number // 4) for number in range(12)]
        self.mixes = nn.ParameterList(nn.Parameter(torch.empty(count, count, 1)) for count in channels)
        self.waves = nn.ModuleList(_Wave(count // 2) for count in channels)

    def forward(self, mels: Any, audio: Any) -> Any:
        mels = self.widen(mels)[:, :, : audio.shape[1]]
        mels = mels.unfold(2, 8, 8).permute(0, 2, 1, 3).flatten(2).transpose(1, 2)
        audio = audio.unfold(1, 8, 8).transpose(1, 2)
        done, scales, volumes = [], [], []
        for number, (mix, wave) in enumerate(zip(self.mixes, self.waves, strict=True)):
            if number and number % 4 == 0:
                done.append(audio[:, :2])
                audio = audio[:, 2:]
            volumes.append(audio.shape[0] * audio.shape[2] * torch.logdet(mix.squeeze(-1).float()))
            audio = nn.functional.conv1d(audio, mix)
            one, two = audio.chunk(2, 1)
            shift, scale = wave(one, mels).chunk(2, 1)
            audio = torch.cat((one, torch.exp(scale) * two + shift), 1)
            scales.append(scale)
        return torch.cat((*done, audio), 1), scales, volumes


def _waveglow() -> Subject:
    def inputs(batch: int, seq: int | None) -> Any:
        return torch.randn(batch, 80, _SEGMENT // 256 + 1), torch.randn(batch, _SEGMENT)

    def forward(model: nn.Module, batch: Any, training: bool) -> Any:
        sound, scales, volumes = model(*batch)
        if not training:
            return sound
        total = (sound * sound).sum() / 2
        for scale, volume in zip(scales, volumes, strict=True):
            total = total - scale.sum() - volume
        return total / sound.numel()

    note = f"segments have {_SEGMENT:,} samples; inference runs the flow forward with weight norm, not its inverse"
    return Subject(build=_WaveGlow, inputs=inputs, forward=forward, notes=(note,))


def models() -> list[Model]:
    """Return the models at the batch sizes of NVIDIA DeepLearningExamples."""
    return [
        Model(
            name="tacotron2",
            title="Tacotron 2",
            family="tacotron",
            source="arXiv:1712.05884, sizes of NVIDIA DeepLearningExamples",
            subject=plain(_tacotron),
            aliases=("tacotron",),
            published=28_193_153,
            optimizer="adam",
            batch=48,
            options={"frames": _FRAMES, "characters": _CHARACTERS},
        ),
        Model(
            name="waveglow",
            title="WaveGlow",
            family="waveglow",
            source="arXiv:1811.00002 with 512 channels; 268.29 million parameters in arXiv:1912.01219",
            subject=plain(_waveglow),
            published=268_290_000,
            tolerance=0.0005,
            optimizer="adam",
            batch=4,
            options={"samples": _SEGMENT},
        ),
    ]
