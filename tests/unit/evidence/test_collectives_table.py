"""Rows of collectives, read as their sources meant them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwise.evidence.collectives import collective_sets
from gpuwise.evidence.tables import read_table
from gpuwise.questions.validate.answer import validate

HEAD = "gpu,gpu_count,link,op,bytes,dtype,library,source,time_us,runs\n"


def table(folder: Path, *lines: str) -> Path:
    path = folder / "collectives.csv"
    path.write_text(HEAD + "".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def row(
    gpu: str = "H100 SXM 80GB", count: int = 8, link: str = "NVLink4 NVSwitch", op: str = "all_reduce", size: int = 2**29
) -> str:
    return f'{gpu},{count},"{link}",{op},{size},fp16,NCCL 2.27,here,2111.7,1'


@pytest.mark.parametrize(
    ("line", "link", "inner", "outer"),
    [
        (row(), "NVLink 4 (H100, 18 links)", 8, 1),
        (row("A100 SXM", 3, "NVLink3"), "NVLink 3 NVSwitch (A100, 12 links)", 3, 1),
        (row("V100 SXM", 4, "NVLink2"), "NVLink 2 (V100, 6 links)", 4, 1),
        (row("A100 80GB", 2, "NVLink3 pair"), "NVLink 3 bridge (A100 PCIe)", 2, 1),
        (row("A100 80GB", 4, "NVLink pairs joined over PCIe"), "NVLink 3 bridge (A100 PCIe)", 4, 1),
        (row("L40S", 4, "PCIe4 x16"), "PCIe 4.0 x16", 4, 1),
        (row("RTX 4090", 4, "PCIe 4.0 x8, no p2p"), "PCIe 4.0 x8", 4, 1),
        (row("A100 SXM 80GB", 8, "between nodes (4 GPUs per node)"), "NVLink 3 NVSwitch (A100, 12 links)", 4, 2),
        (row("H100 SXM 80GB", 2, "between nodes", "send_recv"), "NVLink 4 (H100, 18 links)", 1, 2),
    ],
)
def test_links_are_read(tmp_path: Path, line: str, link: str, inner: int, outer: int) -> None:
    (found,), reasons = collective_sets(read_table(table(tmp_path, line)))
    assert (found.cluster.gpu_link.name, found.inner, found.outer) == (link, inner, outer)
    assert not reasons


def test_rows_that_cannot_be_asked_are_counted(tmp_path: Path) -> None:
    lines = (
        row(),
        row("No Such GPU"),
        row(op="gossip"),
        row(link="carrier pigeon"),
        row(size=0),
        row().replace("2111.7", "soon"),
    )
    answer = validate(table(tmp_path, *lines))
    assert len(answer.residuals) == 1
    assert sum(count for _, count in answer.skipped) == 5
    assert answer.residuals[0].row == 0
    assert answer.residuals[0].predicted_s == pytest.approx(2111.7e-6, rel=0.1)
    assert answer.to_dict()["table"] == "collectives"
