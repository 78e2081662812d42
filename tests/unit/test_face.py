"""Questions as Python functions: typed arguments, the names of the commands, answers equal to `--json`."""

from __future__ import annotations

import inspect
import json

import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.core.errors import BadValue
from gpuwise.questions.registry import QUESTIONS
from gpuwise.surfaces.cli.app import app


@pytest.mark.parametrize("name", sorted(QUESTIONS.keys() - {"watch"}))  # `gpuwise.watch` watches this program instead
def test_every_question_is_a_function_with_the_options_of_its_command(name: str) -> None:
    function, options = getattr(gpuwise, name), QUESTIONS[name].options
    assert function.__name__ == name
    assert function.__doc__ == options.__doc__
    assert list(inspect.signature(function).parameters) == list(inspect.signature(options).parameters)


def test_an_answer_is_the_json_of_the_command() -> None:
    words = ["predict", "resnet18", "--gpu", "T4", "--batch", "8", "--json"]
    assert json.loads(CliRunner().invoke(app, words).stdout) == json.loads(
        json.dumps(gpuwise.predict("resnet18", gpu="T4", batch=8).to_dict())
    )


@pytest.mark.parametrize(
    "arguments",
    [{"compile": "no"}, {"batch": True}, {"gpu": 3090}, {"gpu": ["T4", 1]}, {"seq": "128"}, {"gpus": "2"}, {"precision": None}],
    ids=str,
)
def test_a_value_of_another_type_is_refused_by_its_name(arguments: dict[str, object]) -> None:
    (name,) = arguments
    with pytest.raises(BadValue, match=f"{name}=.* has the wrong type") as refusal:
        gpuwise.predict("resnet18", **{"gpu": "T4", **arguments})
    assert "help(gpuwise.predict)" in refusal.value.hint


def test_an_argument_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BadValue, match=r"predict\(\) got an unexpected keyword argument 'bacth'"):
        gpuwise.predict("resnet18", gpu="T4", bacth=8)
