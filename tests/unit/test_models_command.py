"""`gpuwise models`: what is included, found by name, title or family."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.core.errors import UnknownName
from gpuwise.surfaces.cli.app import app
from gpuwise.workload.store import zoo


def test_all_models_of_the_zoo_are_listed_and_the_command_says_the_same() -> None:
    found = json.loads(CliRunner().invoke(app, ["models", "--json"]).stdout)
    assert [entry["name"] for entry in found["models"]] == list(zoo.entries())
    assert found == json.loads(json.dumps(gpuwise.models().to_dict()))


def test_a_search_finds_families_and_generating_models() -> None:
    found = gpuwise.models("LLaMA").to_dict()["models"]
    assert {"llama-2-7b", "llama-3-8b"} <= {entry["name"] for entry in found}
    assert all(entry["generates"] for entry in found if entry["family"] == "llama")
    assert not any(entry["generates"] for entry in gpuwise.models("resnet").to_dict()["models"])


def test_a_brief_list_fits_a_screen_and_a_long_one_has_every_model() -> None:
    brief, whole = (CliRunner().invoke(app, ["models", *more]).stdout for more in ([], ["-v"]))
    assert len(brief.splitlines()) <= 25
    assert max(map(len, brief.splitlines())) <= 100
    assert all(name in whole for name in zoo.entries())


def test_nothing_found_is_refused_with_what_is_near() -> None:
    with pytest.raises(UnknownName, match="no model matches 'resnet5000'") as refusal:
        gpuwise.models("resnet5000")
    assert "resnet" in refusal.value.hint
