"""`gpuwise models`: what is included, found by name, title or family."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.core.errors import UnknownName
from gpuwise.surfaces.cli.app import app
from gpuwise.workload.language.find import find_shape, known_names
from gpuwise.workload.store import zoo


def test_all_models_of_the_zoo_are_listed_and_the_command_says_the_same() -> None:
    found = json.loads(CliRunner().invoke(app, ["models", "--json"]).stdout)
    assert {entry["name"] for entry in found["models"] if entry["trains"]} == {
        entry.name for entry in zoo.entries().values() if any(graph.mode == "train" for graph in entry.graphs)
    }
    assert len({entry["name"] for entry in found["models"]}) == len(found["models"])
    assert found == json.loads(json.dumps(gpuwise.models().to_dict()))


def test_a_search_finds_families_and_generating_models() -> None:
    found = gpuwise.models("LLaMA").to_dict()["models"]
    assert {"llama-2-7b", "llama-3-8b"} <= {entry["name"] for entry in found}
    assert all(entry["generates"] for entry in found if entry["family"] == "llama")
    assert not any(entry["generates"] for entry in gpuwise.models("resnet").to_dict()["models"])


def test_every_language_model_known_by_name_is_listed_once_and_marked() -> None:
    found = gpuwise.models().models
    for model in known_names():
        size = pytest.approx(find_shape(model).parameters, rel=1e-5)  # versions of a model differ by a few words
        assert any(one.parameters == size and one.generates for one in found), model
    writers = [one for one in found if not one.trains and one.family != "diffusion"]
    assert all(one.uses == "generate" and find_shape(one.name).parameters == one.parameters for one in writers)
    assert {one.uses for one in found} == {"train", "generate", "train, generate"}
    (coder,) = (one for one in found if "qwen3-coder-30b-a3b-instruct" in one.aliases)
    assert coder.name == "qwen3-30b-a3b"


def test_models_that_make_images_are_marked_and_their_parts_are_not_listed() -> None:
    found = {one.name: one.uses for one in gpuwise.models().models if one.family == "diffusion"}
    assert found["sdxl_unet"] == "train, generate"
    assert found["flux_transformer"] == "generate"
    assert not {"t5_xxl_text", "vae16_decoder_512", "sd15_unet_1024"} & found.keys()


def test_a_search_lists_what_trains_and_what_only_generates() -> None:
    rows = {line.split()[0]: line for line in CliRunner().invoke(app, ["models", "qwen"]).stdout.splitlines() if line.strip()}
    assert "train, generate" in rows["qwen3-8b"]
    assert "train" not in rows["qwen3-235b-a22b"]
    assert "generate" in rows["qwen3-235b-a22b"]
    assert "generate" not in CliRunner().invoke(app, ["models", "resnet50"]).stdout


def test_families_count_models_that_only_generate() -> None:
    (row,) = (line for line in CliRunner().invoke(app, ["models"]).stdout.splitlines() if line.startswith("qwen "))
    assert int(row.split()[1]) == sum(one.family == "qwen" for one in gpuwise.models().models)


def test_a_brief_list_fits_a_screen_and_a_long_one_has_every_model() -> None:
    brief, whole = (CliRunner().invoke(app, ["models", *more]).stdout for more in ([], ["-v"]))
    assert len(brief.splitlines()) <= 25
    assert max(map(len, brief.splitlines())) <= 100
    assert all(name in whole for name in (one.name for one in gpuwise.models().models))


def test_nothing_found_is_refused_with_what_is_near() -> None:
    with pytest.raises(UnknownName, match="no model matches 'resnet5000'") as refusal:
        gpuwise.models("resnet5000")
    assert "resnet" in refusal.value.hint
