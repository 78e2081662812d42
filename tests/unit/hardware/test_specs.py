"""Typed GPUs and user catalogues: what is accepted, and how the rest is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwise.core.errors import BadFile, BadValue, GpuwiseError, UnknownName
from gpuwise.core.provenance import Basis
from gpuwise.core.units import GIB, MIB
from gpuwise.hardware import tables
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.specs import gpu_from_text, read_catalog

GOOD = "name=Foo,arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=500GB/s,tdp=200W"


def test_typed_gpu_has_the_figures_given() -> None:
    gpu = gpu_from_text(GOOD)
    assert (gpu.name, gpu.sm_count, gpu.boost_clock_hz, gpu.memory_bytes_per_s, gpu.tdp_watts) == ("Foo", 60, 2.5e9, 500e9, 200)
    assert gpu.memory_bytes == 16 * GIB
    assert gpu.peak_flops_per_s["matrix"]["fp16"] == 60 * 2.5e9 * 1024
    assert gpu.fact("sm_count").basis is Basis.GIVEN


def test_a_figure_nobody_gave_is_marked_assumed() -> None:
    gpu = gpu_from_text(GOOD)
    assert gpu.l2_bytes is not None
    assert 10 * MIB < gpu.l2_bytes < 100 * MIB
    assert gpu.fact("l2_bytes").basis is Basis.ASSUMED
    assert "median" in gpu.fact("l2_bytes").note


def test_an_assumed_cache_grows_with_the_units_up_to_that_of_the_largest_relative() -> None:
    def cache(units: int) -> float:
        text = GOOD.replace("sm=60", f"sm={units}").replace("500GB/s,tdp=200W", "1000GB/s,tdp=500W")
        return gpu_from_text(text).l2_bytes or 0.0

    ada = [gpu.l2_bytes or 0.0 for gpu in tables.curated_gpus() if gpu.architecture.id == "ada"]
    assert cache(20) == pytest.approx(cache(60) / 3)
    assert cache(20) < max(ada)
    assert cache(300) == max(ada)


def test_accumulate_half_halves_the_matrix_rates_that_accumulate_in_fp32() -> None:
    full, half = gpu_from_text(GOOD), gpu_from_text(GOOD + ",accumulate=half")
    assert half.peak_flops_per_s["matrix"]["bf16"] == full.peak_flops_per_s["matrix"]["bf16"] / 2
    assert half.peak_flops_per_s["matrix"]["fp16_acc16"] == full.peak_flops_per_s["matrix"]["fp16_acc16"]


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("sm=60", BadValue, "arch, boost, mem and bw"),
        ("arch=ada,sm=60", BadValue, "boost, mem and bw"),
        ("arch=ada,sm=,boost=1GHz", BadValue, "does not have the form key=value"),
        ("arch=ada,sm=60,sm=61", BadValue, "appears twice"),
        ("arch=adda,sm=60,boost=2.5GHz,mem=16GB,bw=500GB/s", UnknownName, "unknown architecture 'adda'"),
        ("arch=ada,sm=60.5,boost=2.5GHz,mem=16GB,bw=500GB/s", BadValue, "not a whole number"),
        ("arch=ada,sm=60,boost=2.5,mem=16GB,bw=500GB/s", BadValue, "has no unit"),
        ("arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=500W", BadValue, "'W' is not a unit of bandwidth"),
        ("arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=2PB/s", BadValue, "are impossible"),
        ("arch=ada,sm=-60,boost=2.5GHz,mem=16GB,bw=500GB/s", BadValue, "are impossible"),
        ("arch=ada,sm=60,boost=-2.5GHz,mem=16GB,bw=500GB/s", BadValue, "are impossible"),
        ("arch=ada,sm=60,boost=2.5GHz,mem=0GB,bw=500GB/s", BadValue, "are impossible"),
        ("arch=ada,sm=60,boost=nan GHz,mem=16GB,bw=500GB/s", BadValue, "cannot be read as a clock speed"),
        ("arch=ada,sm=60,boost=1e999GHz,mem=16GB,bw=500GB/s", BadValue, "is too large"),
        ("arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=500GB/s,tdp=-5W", BadValue, "TDP must be between"),
        ("arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=500GB/s,vram=5GB", BadValue, "not a valid key"),
        ("arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=25TB/s", BadValue, "operations per byte"),
        ("arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=500GB/s,accumulate=some", BadValue, "half or full"),
        ("arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=500GB/s,price=cheap", BadValue, "cannot be read as an amount of money"),
        ("=", BadValue, "does not have the form key=value"),
    ],
)
def test_half_typed_or_absurd_specs_are_refused(text: str, error: type[GpuwiseError], says: str) -> None:
    with pytest.raises(error) as caught:
        load_catalog().find(text)
    assert says in caught.value.message
    assert caught.value.hint


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "my.toml"
    path.write_text(text, encoding="utf-8")
    return path


ROW = '[[gpu]]\nname = "Lab card"\narch = "ada"\nsm = 60\nboost = "2.5 GHz"\nmem = "16 GB"\nbw = "500 GB/s"\n'


def test_user_catalogue_is_found_before_ours(tmp_path: Path) -> None:
    path = _write(tmp_path, ROW + ROW.replace("Lab card", "RTX 3090"))
    catalog = load_catalog(path)
    assert catalog.find("lab card").gpu.sm_count == 60
    assert catalog.find("RTX 3090").gpu.sm_count == 60
    assert load_catalog(_write(tmp_path, ROW.replace("Lab card", "A100"))).find("a100").gpu.sm_count == 60


def test_a_users_card_wins_over_a_shipped_alias(tmp_path: Path) -> None:
    """`A6000` is an alias of ours; the user's own card of that name is meant."""
    assert load_catalog().find("a6000").gpu.name == "RTX A6000"
    assert load_catalog(_write(tmp_path, ROW.replace("Lab card", "A6000"))).find("a6000").gpu.sm_count == 60


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "contains no [[gpu]] table"),
        ("[gpu]\nname = 'x'", "contains no [[gpu]] table"),
        ("gpu = 3", "contains no [[gpu]] table"),
        ("[[gpu]\nname", "not valid TOML"),
        ("[[gpu]]\narch = 'ada'", "the name is missing"),
        (ROW + "[[gpu]]\nname = 'half'\narch = 'ada'", "gpu 2 (half): a custom GPU also needs sm, boost, mem and bw"),
        (ROW.replace('"500 GB/s"', "500"), "has no unit"),
        (ROW + ROW, "the name appears twice"),
        ("x = " + "[" * 5000, "not valid TOML"),
        (ROW.replace("60", "[1, 2]"), "not a whole number"),
    ],
)
def test_broken_catalogue_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BadFile) as caught:
        read_catalog(_write(tmp_path, text))
    assert says in caught.value.message
    assert caught.value.hint


def test_missing_catalogue_directory_or_binary_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00\x01")
    for path in (tmp_path / "none.toml", tmp_path, tmp_path / "bytes.toml"):
        with pytest.raises(BadFile):
            read_catalog(path)


@pytest.mark.parametrize(
    ("name", "base"), [("RTX 4090 48GB", "RTX 4090"), ("RTX 5070 Ti Super 24GB", "RTX 5070 Ti"), ("RTX 3080 20 GB", "RTX 3080")]
)
def test_the_hint_for_a_variant_is_its_base_with_the_memory_that_was_asked_for(name: str, base: str) -> None:
    with pytest.raises(UnknownName) as refused:
        load_catalog().find(name)
    typed = refused.value.hint.rpartition(' "')[2].rstrip('"') if ' "' in refused.value.hint else ""
    found, listed = load_catalog().find(typed).gpu, load_catalog().find(base).gpu
    assert found.name == name
    assert found.memory_bytes == float(name.split("GB")[0].split()[-1]) * GIB
    assert found.usable_memory_bytes == found.memory_bytes - (listed.memory_bytes - listed.usable_memory_bytes)
    assert found.peak_flops_per_s == listed.peak_flops_per_s
    for field in ("memory_bytes_per_s", "l2_bytes", "tdp_watts", "half_accumulate", "segment", "launched_on", "pcie_lanes"):
        assert getattr(found, field) == getattr(listed, field), field
    assert found.launch_usd is None
    assert found.fact("memory_bytes").basis is Basis.GIVEN


def test_a_hint_may_be_copied_with_its_line_breaks() -> None:
    assert load_catalog().find("name=RTX 4090\n    48GB,like=RTX\n    4090,mem=48GB").gpu.name == "RTX 4090 48GB"


def test_what_follows_from_a_changed_value_changes_with_it() -> None:
    base = load_catalog().find("RTX 5080").gpu
    found = load_catalog().find("like=RTX 5080,name=Foo,boost=3GHz,bw=1200GB/s,sm=90").gpu
    assert found.matrix_clock_hz == pytest.approx(base.matrix_clock_hz * 3e9 / base.boost_clock_hz)
    assert found.peak_flops_per_s["vector"]["fp32"] > base.peak_flops_per_s["vector"]["fp32"]
    assert found.memory_bus_bits is None


@pytest.mark.parametrize("text", ["like=RTX 9999", "like=", "like=RTX 4090,mem=-1GB", "like=RTX 4090,sm=0", "name=Foo,like=x=y"])
def test_a_gpu_that_is_like_nothing_is_refused(text: str) -> None:
    with pytest.raises(GpuwiseError):
        load_catalog().find(text)


def test_a_catalogue_may_say_what_its_gpus_are_like(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('[[gpu]]\nname = "Mine"\nlike = "RTX 4090"\nmem = "48 GB"\n', encoding="utf-8")
    assert load_catalog(path).find("Mine").gpu.sm_count == load_catalog().find("RTX 4090").gpu.sm_count
