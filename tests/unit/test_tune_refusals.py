"""Invalid input to `gpuwise tune`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpuwise.core.errors import BadFile, BadValue, GpuwiseError, UnknownName
from gpuwise.questions.tune.ask import ask
from gpuwise.questions.tune.options import TuneOptions
from gpuwise.surfaces.cli.app import app


@pytest.fixture(autouse=True)
def _no_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_DATA", str(tmp_path))


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"subject": "resnet5o"}, UnknownName, "unknown model"),
        ({"subject": "mnist_cnn"}, BadValue, "no installed library can build the model"),
        ({"subject": "nowhere.py"}, BadFile, "not found"),
        ({"subject": "resnet50", "try_": "colour"}, BadValue, "unknown setting 'colour'"),
        ({"subject": "resnet50", "seconds": 1.0}, BadValue, "invalid --seconds 1"),
        ({"subject": "resnet50", "timeout": -1.0}, BadValue, "invalid --timeout -1"),
        ({"subject": ["resnet50", "--epochs"]}, BadValue, "takes no arguments"),
        ({"subject": "resnet50", "set": ["workers=--workers {}"]}, BadValue, "has no flags to set"),
        ({"subject": __file__, "set": ["workers"]}, BadValue, "does not specify how"),
        (
            {"subject": __file__, "set": ["colour=--colour {}"]},
            BadValue,
            "'colour' is a custom setting, so its values must be listed",
        ),
        ({"subject": __file__, "set": ["colour:a,b=--colour"]}, BadValue, "does not specify where they go"),
        ({"subject": __file__, "set": ["colour:a='--colour"]}, BadValue, "cannot be split"),
        ({"subject": "resnet50", "precision": "fp8"}, BadValue, "can be predicted, but it cannot run on this machine"),
        ({"subject": "resnet50", "optimizer": "lion"}, BadValue, "can be predicted, but it cannot run on this machine"),
        ({"subject": __file__, "batch": 0}, BadValue, "sets its own batch"),
        ({"subject": __file__, "batch": 4}, BadValue, "sets its own batch"),
        ({"subject": __file__, "precision": "amp"}, BadValue, "sets its own precision"),
    ],
)
def test_bad_questions_are_refused_with_a_hint(options: dict[str, Any], kind: type[GpuwiseError], words: str) -> None:
    with pytest.raises(kind, match=words) as refused:
        ask(TuneOptions(**options))
    assert refused.value.hint


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tune", "batch"], "takes one model, not 0"),
        (["tune", "batch", "resnet50", "--gpu", "RTX 3090", "--try", "batch"], "--try has no effect on `gpuwise tune batch`"),
        (["tune", "resnet50", "--gpu", "RTX 3090"], "--gpu has no effect on `gpuwise tune MODEL`"),
        (["tune", "resnet50", "--apply"], "--apply has no effect"),
        (["tune", "resnet50", "--seconds", "0"], "invalid --seconds 0"),
        (["tune", "power", "resnet50"], "no GPU was given"),
        (["tune", "power", "resnet50", "--gpu", "RTX 3090", "--batch", "0"], "invalid batch size 0"),
        (["tune", "power", "resnet50", "--gpu", "cpu"], "the power limit of"),
        (
            ["tune", "power", "resnet50", "--gpu", "RTX 3090", "--limits", "50W"],
            "50 W is outside the power range of the RTX 3090",
        ),
        (["tune", "power", "resnet50", "--gpu", "RTX 3090", "--limits", ","], "contains no power limit"),
        (["tune", "power", "resnet50", "--gpu", "RTX 3090", "--apply"], "--apply works only on a card in this machine"),
        (["tune", "power", "resnet50", "--gpu", "RTX 3090", "--gpu", "T4"], "`tune power` takes one GPU at a time"),
    ],
)
def test_options_that_would_change_nothing_are_refused(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, GpuwiseError)
    assert words in str(result.exception)
