"""What people and drivers write, and the product they mean."""

from __future__ import annotations

import pytest

from gpuwise.core.errors import UnknownName
from gpuwise.hardware.catalog import load_catalog, tokens
from whole_tables import every_row

SPELLINGS = {
    # people
    "3090": "RTX 3090",
    "rtx3090": "RTX 3090",
    "RTX 3090": "RTX 3090",
    "GeForce RTX 3090": "RTX 3090",
    "nvidia geforce rtx 3090 24gb": "RTX 3090",
    "3090ti": "RTX 3090 Ti",
    "RTX-3090-Ti": "RTX 3090 Ti",
    "rtx 2070 maxq": "RTX 2070 Max-Q",
    "RTX 2070 Max-Q": "RTX 2070 Max-Q",
    "2070 max q": "RTX 2070 Max-Q",
    "2080 Ti": "RTX 2080 Ti",
    "2080Ti 11GB": "RTX 2080 Ti",
    "1080ti": "GTX 1080 Ti",
    "gtx1080": "GTX 1080",
    "GTX 960M": "GTX 960M",
    "gtx 970": "GTX 970",
    "1060 3gb": "GTX 1060 3GB",
    "GTX 1060 6 GB": "GTX 1060 6GB",
    "4070 ti super": "RTX 4070 Ti Super",
    "RTX4070TiSuper": "RTX 4070 Ti Super",
    "2070 Super": "RTX 2070 Super",
    "RTX 2070S": "RTX 2070 Super",
    "4060 ti 16gb": "RTX 4060 Ti 16GB",
    "5090": "RTX 5090",
    "rtx a6000": "RTX A6000",
    "A6000": "RTX A6000",
    "6000 Ada": "RTX 6000 Ada",
    "RTX 6000 Ada Generation": "RTX 6000 Ada",
    "RTX6000Ada": "RTX 6000 Ada",
    "RTXPRO6000": "RTX PRO 6000 Blackwell",
    "A100-80G-PCIe-NVLink": "A100 PCIe 80GB",
    "Quadro RTX 6000": "Quadro RTX 6000",
    "quadro p4000": "Quadro P4000",
    "titan rtx": "Titan RTX",
    "Titan Xp": "Titan Xp",
    "TITAN V": "Titan V",
    "k80": "K80",
    "Tesla K80": "K80",
    "t4": "T4",
    "l40s": "L40S",
    "a100": "A100 SXM 80GB",
    "A100 40GB": "A100 SXM 40GB",
    "A100 PCIe 80GB": "A100 PCIe 80GB",
    "a100-80g-pcie": "A100 PCIe 80GB",
    "h100": "H100 SXM 80GB",
    "h100 pcie": "H100 PCIe 80GB",
    "H100-80G-SXM5": "H100 SXM 80GB",
    "b200": "B200",
    "mi300x": "MI300X",
    "AMD Instinct MI250X": "MI250X",
    "7900xtx": "RX 7900 XTX",
    "Radeon RX 7900 XTX": "RX 7900 XTX",
    "rx6800": "RX 6800",
    "Arc A770": "Arc A770 16GB",
    "Tesla M4": "Tesla M4",
    "Apple M4": "M4 10-core",
    "intel arc b580": "Arc B580",
    "Apple M2 Max": "M2 Max 38-core",
    "M1 8-core": "M1 8-core",
    # drivers
    "NVIDIA GeForce RTX 4090 Laptop GPU": "RTX 4090 Laptop",
    "NVIDIA GeForce RTX 2070 with Max-Q Design": "RTX 2070 Max-Q",
    "NVIDIA A100-SXM4-40GB": "A100 SXM 40GB",
    "A100-SXM4-80GB": "A100 SXM 80GB",
    "Tesla V100-DGXS-16GB": "V100 DGXS 16GB",
    "Tesla V100-SXM2-32GB": "V100 SXM 32GB",
    "Tesla V100-SXM3-32GB": "V100 SXM3 32GB",
    "Tesla P100-PCIE-16GB": "P100 PCIe 16GB",
    "NVIDIA H100 80GB HBM3": "H100 SXM 80GB",
    "NVIDIA H100 PCIe": "H100 PCIe 80GB",
    "NVIDIA H200": "H200",
    "NVIDIA L4": "L4",
    "gfx942": "MI300X",
    "gfx90a:sramecc+:xnack-": "MI250X",
    "gfx1100": "RX 7900 XTX",
    "AMD Radeon RX 6900 XT": "RX 6900 XT",
    # with the memory that PyTorch and nvidia-smi show of it
    "Tesla T4 15GB": "T4",
    "Tesla T4 14GB": "T4",
    "Tesla T4 15360MiB": "T4",
    "RTX 5090 31GB": "RTX 5090",
    "NVIDIA GeForce RTX 5090 32607 MiB": "RTX 5090",
    "RTX 3090 23GB": "RTX 3090",
    "NVIDIA GeForce RTX 3090 23.7 GiB": "RTX 3090",
    "NVIDIA GeForce RTX 4090 24GB": "RTX 4090",
    "NVIDIA GeForce RTX 4090 22GB": "RTX 4090",  # with ECC switched on
    "H200 140GB": "H200",
    "RTX 3080 9GB": "RTX 3080",
    "RTX 3080 11GB": "RTX 3080 12GB",
    "RTX 2080 Ti 10GB": "RTX 2080 Ti",
    "RTX 4060 Ti 7GB": "RTX 4060 Ti 8GB",
    "RTX 4060 Ti 15GB": "RTX 4060 Ti 16GB",
    "NVIDIA A10G 22GB": "A10G",
    "NVIDIA L4 22GB": "L4",
    "L40S 44GB": "L40S",
    "A100 39GB": "A100 SXM 40GB",
    "A100 79GB": "A100 SXM 80GB",
    "H100 79GB": "H100 SXM 80GB",
    "V100 15GB": "V100 SXM 16GB",
    "GTX 1650 Ti 4GB": "GTX 1650 Ti Mobile",
    "GTX 970 3.5GB": "GTX 970",
}


@pytest.mark.parametrize(("spelling", "name"), SPELLINGS.items())
def test_spelling_resolves(spelling: str, name: str) -> None:
    assert load_catalog().find(spelling).gpu.name == name


def test_there_are_sixty_spellings() -> None:
    assert len(SPELLINGS) >= 60


@every_row(load_catalog().curated, lambda gpu: gpu.name)
def test_every_curated_name_and_alias_finds_its_own_row(gpu: object) -> None:
    for name in (gpu.name, gpu.name.upper(), gpu.name.replace(" ", "-")):  # type: ignore[attr-defined]
        assert load_catalog().find(name).gpu is gpu
    for alias in gpu.aliases:  # type: ignore[attr-defined]
        match = load_catalog().find(alias)
        assert gpu in (match.gpu, *match.others)


WRONG = {
    "h100-pice": "H100 PCIe 80GB",
    "rtx 3090 tie": "RTX 3090 Ti",
    "RTX 4091": "RTX 4090",
    "GTX 3090x": "RTX 3090",
    "Tesla V1000": "V100",
    "rtx 2070 mxq": "RTX 2070 Max-Q",
    "a1000 sxm": "A100 SXM",
    "MI300Z": "MI300X",
    "RX 7900 XTT": "RX 7900 XT",
    "gfx943": "MI300X",
    "Quadro RTX 6001": "Quadro RTX 6000",
    "titan y": "Titan",
    "L41S": "L40S",
    "jetson orrin nano": "Jetson Orin Nano",
    "arc b581": "Arc B580",
    "GTX 1080Tie": "GTX 1080 Ti",
    "M2 Macs": "M2",
    "B2000": "B200",
    "RTX PRO 6500 Blackwell": "RTX PRO 4500 Blackwell",
    "teslla t4": "T4",
}


def test_a_match_is_what_find_finds_and_none_where_find_fails() -> None:
    catalog = load_catalog()
    for spelling in SPELLINGS:
        assert catalog.match(spelling) == catalog.find(spelling)
    assert catalog.match("NVIDIA A100-PG509-200") is None


@pytest.mark.parametrize(("spelling", "meant"), WRONG.items())
def test_wrong_name_gets_a_useful_suggestion(spelling: str, meant: str) -> None:
    with pytest.raises(UnknownName) as caught:
        load_catalog().find(spelling)
    assert f"`{meant}" in caught.value.hint
    assert spelling in caught.value.message
    assert "GPUs and their aliases" in caught.value.looked_in


@pytest.mark.parametrize(
    ("spelling", "meant"),
    [
        ("RTX 3080 20GB", ("`RTX 3080` (10 GB)", "`GeForce RTX 3080 Ti 20GB` (20 GB)")),
        ("RTX 4070 16GB", ("`RTX 4070` (12 GB)", "`RTX 4070 Ti Super` (16 GB)")),
        ("RTX 3080 16GB", ("`RTX 3080` (10 GB)", "`RTX 3080 Laptop 16GB` (16 GB)")),
        ("RTX 4090 48GB", ("`RTX 4090` (24 GB)",)),
        ("RTX 3090 21GB", ("`RTX 3090` (24 GB)",)),
        ("A100 60GB", ("`A100 SXM 80GB` (80 GB)", "`A100 SXM 40GB` (40 GB)")),
    ],
)
def test_a_memory_size_that_the_card_has_not_is_an_error_and_never_another_card(spelling: str, meant: tuple[str, ...]) -> None:
    with pytest.raises(UnknownName) as caught:
        load_catalog().find(spelling)
    assert all(each in caught.value.hint for each in meant)
    assert "pass its specs" in caught.value.hint


def test_there_are_twenty_wrong_ones() -> None:
    assert len(WRONG) >= 20


@pytest.mark.parametrize("name", ["", " ", "rtx", "laptop", "16gb", "nvidia", "🚀", "x" * 10_000, "'; drop table gpus", "\x00"])
def test_a_name_that_names_nothing_is_an_error(name: str) -> None:
    with pytest.raises(UnknownName):
        load_catalog().find(name)


@pytest.mark.parametrize(
    ("asked", "other"), [("V100", "V100 PCIe 16GB"), ("A100", "A100 SXM 40GB"), ("RTX 3060", "RTX 3060 8GB")]
)
def test_ambiguous_name_reports_the_others(asked: str, other: str) -> None:
    assert other in {gpu.name for gpu in load_catalog().find(asked).others}


@pytest.mark.parametrize("asked", ["RTX 3090", "V100 SXM 16GB", "V100 SXM 32GB", "V100 SXM3 32GB", "T4", "RTX 2070 Max-Q"])
def test_full_name_is_not_ambiguous(asked: str) -> None:
    assert load_catalog().find(asked).others == ()


@pytest.mark.parametrize(
    ("asked", "taken", "other"),
    [
        ("gfx90a", "MI250X", "MI210"),
        ("Titan X", "Titan X Pascal", "Titan X Maxwell"),
        ("M4", "M4 10-core", "Tesla M4"),
        ("GTX 1650 Ti", "GTX 1650 Ti Mobile", None),
    ],
)
def test_the_common_product_is_taken(asked: str, taken: str, other: str | None) -> None:
    match = load_catalog().find(asked)
    assert match.gpu.name == taken
    assert other is None or other in {gpu.name for gpu in match.others}


def test_a_suffix_is_never_dropped() -> None:
    assert load_catalog().find("3080 Ti").gpu.name == "RTX 3080 Ti"
    assert load_catalog().find("A10").gpu.name == "A10"
    assert load_catalog().find("MI250").gpu.name == "MI250"


def test_the_long_tail_answers_what_the_curated_table_lacks() -> None:
    gpu = load_catalog().find("Radeon HD 7970").gpu
    assert not gpu.curated
    assert gpu.architecture.id == "gcn1"


def test_vendor_words_choose_between_vendors() -> None:
    assert load_catalog().find("Radeon 780M").gpu.vendor == "AMD"
    assert load_catalog().find("GeForce GTX 780M").gpu.vendor == "NVIDIA"


def test_tokens_split_glued_names() -> None:
    assert tokens("rtx3090ti") == ("rtx", "3090", "ti")
    assert tokens("A100-SXM4-40GB") == ("a100", "sxm4", "40gb")


@pytest.mark.parametrize("name", ["RTX 3090 20GB", "RTX 4090 28 GB", "A100 64GB", "T4 12GB"])
def test_a_memory_that_no_such_card_has_is_an_error(name: str) -> None:
    with pytest.raises(UnknownName):
        load_catalog().find(name)


@pytest.mark.parametrize("name", ["4090", "3080 10GB", "2070", "1080"])
def test_a_laptop_part_is_meant_only_where_the_name_says_so(name: str) -> None:
    found = load_catalog().find(name)
    assert "laptop" not in {gpu.segment for gpu in (found.gpu, *found.others)}
    assert load_catalog().find(f"{name.split()[0]} laptop").gpu.segment == "laptop"
