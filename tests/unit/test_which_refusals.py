"""Invalid input to `gpuwise which`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuwise.core.errors import GpuwiseError
from gpuwise.questions.which.ask import ask
from gpuwise.questions.which.options import WhichOptions
from gpuwise.surfaces.cli.app import app


def refused(*arguments: str) -> GpuwiseError:
    result = CliRunner().invoke(app, ["which", *arguments])
    assert isinstance(result.exception, GpuwiseError), result.output
    assert result.exception.hint
    return result.exception


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--budget", "0"), "the budget must be above zero, not 0"),
        (("--budget", "-5"), "must be above zero"),
        (("--budget", "nan"), "must be a finite number"),
        (("--budget", "inf"), "must be a finite number"),
        (("--currency", "XYZ=2"), "unknown currency 'XYZ'"),
        (("--currency", "EUR"), "the exchange rate for EUR is missing"),
        (("--task", "dancing"), "unknown task 'dancing'"),
        (("--model", "resnet50", "--task", "nlp"), "cannot be combined"),
        (("--model", "resnet5000"), "resnet5000"),
        (("--deadline", "soon"), "invalid deadline"),
        (("--deadline", "-3 days"), "invalid deadline"),
        (("--deadline", "0 h"), "invalid deadline"),
        (("--have", "0x RTX 3090"), "invalid number of GPUs"),
        (("--have", "RTX 9999"), "RTX 9999"),
        (("--hours-per-week", "0"), "must be above zero"),
        (("--hours-per-week", "200"), "week"),
        (("--years", "21"), "is too long"),
        (("--years", "0"), "must be above zero"),
        (("--samples", "0", "--model", "resnet50"), "must be above zero"),
        (("--samples", "5"), "works only with `--model`"),
        (("--max-gpus", "0"), "is out of range"),
        (("--vendor", "3dfx"), "unknown vendor"),
        (("--laptop", "--rent"), "laptop GPUs cannot be rented"),
        (("--kwh-price", "0.2", "--tariff", "200=0.1"), "cannot be combined"),
        (("--price", "RTX 3090=cheap"), "cheap"),
        (("--batch", "many"), "many"),
        (("--precision", "banana", "--model", "resnet50"), "banana"),
        (("--image", "-3", "--model", "resnet50"), "-3"),
        (("--image", "50", "--task", "llm-finetune"), "cannot be changed with --image 50"),
        (("--optimizer", "hope", "--model", "resnet50"), "hope"),
        (("--chart", "pie"), "unknown chart 'pie'"),
        (("--mode", "guess", "--model", "resnet50"), "unknown mode"),
    ],
)
def test_bad_input_is_refused_with_a_hint(arguments: tuple[str, ...], message: str) -> None:
    assert message in str(refused(*arguments))


def test_a_price_file_with_text_where_a_number_belongs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text('[buy]\n"RTX 3090" = "cheap"\n', encoding="utf-8")
    assert "RTX 3090" in str(refused("--prices", str(tmp_path / "prices.toml")))


def test_a_power_supply_is_a_number() -> None:
    result = CliRunner().invoke(app, ["which", "--psu", "big"])
    assert result.exit_code == 2
    assert "--psu" in result.output


@pytest.mark.parametrize("text", ["$800", "800 USD", "800.0"])
def test_a_budget_may_carry_its_currency(text: str) -> None:
    assert ask(WhichOptions(budget=text)).limits.budget_usd == 800
    assert ask(WhichOptions(budget=text.strip("$ USD"), currency="EUR=1.25")).limits.budget_usd == 1000
