"""An invalid command line gets our own error message, with a line that works."""

from __future__ import annotations

import shlex

import pytest
from test_cli import run

from gpuwise.questions.registry import QUESTIONS
from gpuwise.surfaces.cli.app import app
from gpuwise.surfaces.cli.commands import COMMANDS
from gpuwise.surfaces.cli.usage import _MEANT


def example_of(command: str) -> str:
    return QUESTIONS[command].example if command in QUESTIONS else f"gpuwise {command}"


def test_every_command_refuses_what_it_does_not_know_with_an_example() -> None:
    for command in COMMANDS:
        done = run(command, "--no-such-option")
        assert done.returncode == 2, command
        assert done.stderr.startswith(f"error: gpuwise {command}: no such option: --no-such-option\n"), command
        assert f"ry `{example_of(command)}`" in done.stderr
        assert "╭" not in done.stderr


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("which resnet50", "use --model instead"),
        ('plan llama-2-7b --gpu "8x A100"', "use --cluster instead"),
        ("sweep models.txt --gpu all", "use --gpus instead"),
        ("predict resnet50 --gpuu 3090", "did you mean --gpu?"),
        ("pedict resnet50", "did you mean `gpuwise predict`?"),
        ("predict", "missing argument 'model'"),
        ("which --budget", "option '--budget' requires an argument"),
        ("--nope", "no such option: --nope"),
    ],
)
def test_what_was_meant_is_guessed(line: str, hint: str) -> None:
    done = run(*shlex.split(line))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: gpuwise")
    assert hint in done.stderr


def test_hints_name_commands_and_options_that_exist() -> None:
    from typer.main import get_command

    known = get_command(app).commands  # type: ignore[attr-defined]
    assert set(COMMANDS) == set(known)
    for command, example in ((command, example_of(command)) for command in COMMANDS):
        options = {option for option in shlex.split(example) if option.startswith("--") and option != "--"}
        assert options <= _options(known[command]), example
    for (command, wrong), right in _MEANT.items():
        assert wrong not in _options(known[command])
        assert not right.startswith("--") or right in _options(known[command])


def _options(command: object) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}  # type: ignore[attr-defined]


def test_one_command_alone_answers_as_it_does_among_all() -> None:
    helped = run("fit", "--help")
    assert helped.returncode == 0
    assert "gpuwise fit [OPTIONS]" in helped.stdout
    listed = run("--help").stdout
    assert all(command in listed for command in COMMANDS)


def test_a_long_complaint_is_wrapped_but_a_command_in_it_is_not() -> None:
    lines = run("sweep", "models.txt", "--precision", "fp16").stderr.splitlines()
    assert max(map(len, lines)) <= 100
    assert "    `gpuwise sweep models.txt --gpus curated --batches 1..64 --out table.csv`" in lines


def test_a_word_without_spaces_longer_than_a_line_is_kept_whole() -> None:
    path = "/nowhere/" + "x" * 120
    assert path in run("why", path).stderr
