"""Files of measurements: what is read, what is refused and how."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwise import validate
from gpuwise.core.errors import BadFile, BadValue
from gpuwise.evidence.ranges import trust_of
from gpuwise.evidence.tables import read_table

HEAD = (
    "source,gpu,gpu_count,model,mode,precision,batch_per_gpu,image_or_seq,step_ms,"
    "framework,framework_version,stack,layout,optimizer\n"
)
ROW = "mine,RTX 3090,1,resnet50,train,amp,64,224,80,torch,2.4,eager,nchw,sgd\n"


def written(folder: Path, text: str, name: str = "e2e.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("a,b\n1,2\n", "does not match any known table"),
        (HEAD, "no rows"),
        (HEAD + "mine,RTX 3090\n", "line 2 has 2 fields, not 14"),
        ("\x00\x01", "does not match any known table"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BadFile, match=says):
        read_table(written(tmp_path, text))


def test_missing_files_folders_and_broken_parquet_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="not found"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(BadFile, match="folder"):
        read_table(tmp_path)
    pytest.importorskip("pyarrow", reason="reading Parquet needs pyarrow")
    with pytest.raises(BadFile, match="Parquet"):
        read_table(written(tmp_path, "not parquet", "x.parquet"))


def test_rows_that_cannot_be_asked_are_counted_by_reason(tmp_path: Path) -> None:
    rows = [
        ROW,
        ROW.replace("RTX 3090", "RTX 9999 Ultra"),
        ROW.replace(",80,", ",,"),
        ROW.replace(",64,", ",0,"),
        ROW.replace(",amp,", ",int4,"),
    ]
    answer = validate(written(tmp_path, HEAD + "".join(rows)))
    assert (answer.rows, len(answer.residuals)) == (5, 1)
    assert sum(count for _, count in answer.skipped) == 4
    assert any("RTX 9999" in reason for reason, _ in answer.skipped)
    assert answer.to_dict()["residuals"][0]["row"] == 0


def test_one_measured_row_corrects_the_others(tmp_path: Path) -> None:
    path = written(tmp_path, HEAD + ROW + ROW.replace("RTX 3090", "RTX 4090").replace(",80,", ",50,"))
    plain, told = validate(path), validate(path, measured_rows=1)
    assert len(told.residuals) == 1
    off = plain.residuals[0].measured_s / plain.residuals[0].predicted_s
    moved = told.residuals[0].predicted_s / plain.residuals[1].predicted_s
    assert (moved > 1) == (off > 1)
    with pytest.raises(BadValue):
        validate(path, measured_rows=-1)


def test_a_measurement_says_more_of_software_that_was_not_fitted() -> None:
    shared = [(True, True), (True, False), (False, True), (False, False)]
    fitted, other = ([trust_of(same_setup=setup, same_gpu=gpu, fitted=known) for setup, gpu in shared] for known in (True, False))
    assert all(0 <= one < two < 1 for one, two in zip(fitted, other, strict=True))
    assert fitted == sorted(fitted, reverse=True)
    assert other[-1] > 0 == fitted[-1]


def test_single_operators_are_predicted(tmp_path: Path) -> None:
    text = "gpu,op,b,m,n,k,h,latency_ms\nV100 PCIe 32GB,linear,1,4096,4096,4096,,11.0\nV100 PCIe 32GB,add,8192,,,,8192,1.0\n"
    answer = validate(written(tmp_path, text, "ops.csv"))
    assert answer.table == "ops_fp32"
    assert len(answer.residuals) == 2
    assert all(0.5 < row.predicted_s / row.measured_s < 2 for row in answer.residuals)
