"""`gpuwise capture` as a user meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from commanding import Commands

CONTRACT_KEYS = set(
    "model mode precision batch parameters forward_flops backward_flops optimizer_flops ops coverage_fraction unknown_ops "
    "symbolic assumptions data_date".split()
)


def run(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuwise", "capture", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        env=os.environ | {"PYTHONUTF8": "1"},
        timeout=180,
        check=False,
    )


def test_a_zoo_model_answers_in_the_contract_keys() -> None:
    answer = json.loads(run("resnet18", "--batch", "32", "--precision", "amp", "--json").stdout)
    assert set(answer) >= CONTRACT_KEYS
    assert answer["parameters"] == 11_689_512
    assert answer["symbolic"] == ["batch"]
    assert answer["forward_flops"] == pytest.approx(32 * 2 * 1.814e9, rel=0.01)
    assert answer["coverage_fraction"] == 1.0


def test_a_zoo_model_needs_no_framework() -> None:
    code = (
        "import sys\n"
        "class Spy:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        assert name.partition('.')[0] not in ('torch', 'keras', 'transformers', 'timm', 'tensorflow', 'jax'), name\n"
        "sys.meta_path.insert(0, Spy())\n"
        "sys.argv = ['gpuwise', 'capture', 'resnet18', '--compile']\n"
        "from gpuwise.surfaces.cli.app import app\n"
        "app()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "compilation fuses" in done.stdout


@pytest.fixture(scope="module")
def resnet18(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workload file, to be read only."""
    folder = tmp_path_factory.mktemp("file")
    assert run("resnet18", "-o", "w.json", folder=folder).returncode == 0
    return folder / "w.json"


def test_a_workload_file_is_a_model(tmp_path: Path) -> None:
    first = run("resnet18", "-o", "w.json.gz", "--json", folder=tmp_path)
    again = run("w.json.gz", "--batch", "7", "--json", folder=tmp_path)
    assert first.returncode == again.returncode == 0
    ratio = json.loads(again.stdout)["forward_flops"] / json.loads(first.stdout)["forward_flops"]
    assert ratio == pytest.approx(7 / json.loads(first.stdout)["batch"])
    assert [path.name for path in tmp_path.iterdir()] == ["w.json.gz"]


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (["--precision", "amp"], "uses precision fp32; --precision amp cannot change that"),
        (["--optimizer", "adam"], "uses optimizer momentum; --optimizer adam cannot"),
        (["--mode", "infer"], "uses mode train; --mode infer cannot"),
        (["--image", "7"], "uses image 224; --image 7 cannot"),
        (["--checkpoint"], "--checkpoint cannot"),
        (["--accumulate", "4"], "uses accumulate 1; --accumulate 4 cannot"),
        (["--input", "x=batch,3"], "uses no inputs; --input cannot"),
    ],
)
def test_a_workload_file_keeps_its_settings(option: list[str], says: str, resnet18: Path, commands: Commands) -> None:
    done = commands.run("capture", "w.json", *option, folder=resnet18.parent)
    assert done.returncode == 2
    assert says in done.stderr


def test_a_workload_file_is_asked_with_its_own_settings_and_nothing_is_assumed(tmp_path: Path) -> None:
    run("resnet18", "-o", "w.json", "--precision", "amp", folder=tmp_path)
    answer = json.loads(run("w.json", "--precision", "amp", "--json", folder=tmp_path).stdout)
    assert (answer["precision"], answer["optimizer"], answer["assumptions"]) == ("amp", "momentum", [])


def test_a_file_in_another_order_is_still_one(resnet18: Path, tmp_path: Path) -> None:
    found = json.loads(resnet18.read_text(encoding="utf-8"))
    (tmp_path / "w.json").write_text(json.dumps(found, sort_keys=True), encoding="utf-8")
    assert run("w.json", folder=tmp_path).returncode == 0


def test_assumptions_are_stated() -> None:
    names = {entry["name"] for entry in json.loads(run("resnet18", "--json").stdout)["assumptions"]}
    assert names == {"precision", "optimizer"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["resnet19"],
        [""],
        ["resnet18", "--batch", "0"],
        ["resnet18", "--batch", "-3"],
        ["resnet18", "--batch", "99999999999"],
        ["resnet18", "--seq", "128"],
        ["resnet18", "--precision", "int3"],
        ["resnet18", "--mode", "dream"],
        ["resnet18", "--optimizer", "magic"],
        ["resnet18", "--optimizer-impl", "magic"],
        ["resnet18", "--accumulate", "0"],
        ["resnet18", "--phase", "sleep"],
        ["resnet18", "--input", "x"],
        ["resnet18", "--input", "x=a,b"],
        ["resnet18", "--input", "x=batch,3:fp99"],
        ["resnet18", "--timeout", "0"],
        ["resnet18", "--memory-limit", "much"],
        ["resnet18", "-o", "no/such/folder/w.json"],
        ["resnet18", "--timeout", "nan"],
        ["resnet18", "--memory-limit", "-5GB"],
        ["resnet18", "--memory-limit", "1e30GB"],
        ["resnet18", "-o", "w.txt"],
        ["resnet18", "some", "arguments"],
        ["resnet18", "--mode", "infer", "--clip"],
        ["resnet18", "--mode", "infer", "--optimizer", "adam"],
        ["resnet18", "--input", "x=batch,3", "--input", "x=batch,3"],
        ["timm:resnet18", "--input", "x=batch,3"],
        ["timm:resnet18", "--phase", "decode"],
        ["none.json"],
        ["none.json.gz"],
        ["timm:"],
        ["none.py:Net"],
        ["none.py"],
    ],
)
def test_bad_input_exits_2_with_error_and_hint(arguments: list[str], tmp_path: Path, commands: Commands) -> None:
    done = commands.run("capture", *arguments, folder=tmp_path)
    assert done.returncode == 2, done.stdout
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
