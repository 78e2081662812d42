"""Speech in its own unit: seconds of audio per second, by transcribing and by training."""

from __future__ import annotations

import pytest

import gpuwise
from gpuwise.core.errors import BadValue
from gpuwise.workload.store import zoo
from gpuwise.workload.store.speech import audio_s


def _one(model: str, **options: object) -> dict[str, object]:
    found: dict[str, object] = gpuwise.predict(model, gpu="RTX 4090", **options).to_dict()["results"][0]
    return found


def test_whisper_transcribes_unless_it_is_trained() -> None:
    plain, trained = _one("whisper-small"), _one("whisper-small", mode="train")
    assert (plain["mode"], trained["mode"]) == ("infer", "train")
    assert plain["rate_unit"] == trained["rate_unit"] == "x realtime"
    assert plain["rate"] == pytest.approx(plain["transcription"]["realtime"])
    assert trained["rate"] == pytest.approx(30 * trained["samples_per_s"])
    assert _one("whisper-small", optimizer="adamw")["mode"] == "train"


def test_a_transcript_is_its_parts() -> None:
    told = _one("whisper-large", batch=4, output=60)["transcription"]
    assert told["window_s"] == pytest.approx(told["listening_s"] + 60 * told["token_s"])
    assert told["realtime"] == pytest.approx(4 * 30 / told["window_s"])
    assert told["realtime_low"] < told["realtime"] < told["realtime_high"]


def test_the_range_of_speech_is_assumed_because_none_was_measured() -> None:
    assert _one("whisper-large")["range_basis"] == "assumed"
    assert "assumed range" in str(gpuwise.predict("whisper-large", gpu="RTX 4090"))


def test_more_windows_at_once_are_never_slower_and_fewer_decoder_layers_are_faster() -> None:
    rates = [_one("whisper-large", batch=size)["rate"] for size in (1, 4, 16)]
    assert rates == sorted(rates)
    models = ("whisper-large", "whisper-turbo", "distil-whisper")
    speeds = [_one(model)["rate"] for model in models]
    assert speeds == sorted(speeds)


def test_seconds_of_audio_in_a_sample() -> None:
    assert audio_s(zoo.load("whisper-tiny")) == 30.0
    assert audio_s(zoo.load("wav2vec2-base")) == pytest.approx(10.0)  # 500 frames of 20 ms
    assert audio_s(zoo.load("tacotron2")) == pytest.approx(0.743, abs=0.001)  # 64 frames of 256 samples at 22.05 kHz
    assert audio_s(zoo.load("waveglow")) == pytest.approx(0.363, abs=0.001)  # 8,000 samples at 22.05 kHz
    assert audio_s(zoo.load("resnet50")) is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"users": 4}, "does not apply to whisper-small"),
        ({"weights": "q4_0"}, "does not apply to whisper-small"),
        ({"engine": "vllm"}, "only with transformers"),
        ({"output": 449}, "invalid --output"),
        ({"batch": "auto"}, "not available for speech"),
        ({"gpus": 2}, "one GPU"),
        ({"samples": 100.0}, "not trained"),
        ({"optimizer": "adamw", "mode": "infer"}, "training option"),
    ],
)
def test_what_speech_cannot_use_is_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(BadValue, match=says):
        gpuwise.predict("whisper-small", gpu="RTX 4090", **options)


def test_training_tells_the_time_of_an_epoch() -> None:
    found = _one("whisper-small", mode="train", samples=100_000, epochs=3)
    assert found["epoch_s"] == pytest.approx(100_000 / found["samples_per_s"])
    assert found["training_s"] == pytest.approx(3 * found["epoch_s"])
    assert found["training_low_s"] < found["training_s"] < found["training_high_s"]
    shown = str(gpuwise.predict("resnet50", gpu="RTX 3090", samples=1_281_167, epochs=90))
    assert "for 1,281,167 samples, 90 epochs" in shown


def test_epochs_of_no_samples_are_refused() -> None:
    with pytest.raises(BadValue, match="needs the number of samples"):
        gpuwise.predict("resnet50", gpu="RTX 3090", epochs=3)
