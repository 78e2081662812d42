"""What the fit takes of image generation that people report: the middle of several, without what shows something else."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from fit.reports import image_questions, single_reports
from fit.widths import report_ranges
from gpuwise.evidence.e2e import Question
from gpuwise.evidence.fits import shipped
from gpuwise.evidence.score import score

ROW = {
    "source": "sd_data_webui",
    "origin": "reports",
    "gpu": "RTX 4090",
    "gpu_as_written": "RTX 4090",
    "gpu_count": "1",
    "model": "Stable Diffusion 1.5",
    "mode": "infer",
    "precision": "fp16",
    "quantisation": "",
    "stack": "Forge, torch 2.3.1+cu121, Automatic, Windows",
    "size": "512",
    "unit": "it_per_s",
    "note": "it/s = steps x batch / wall time of the whole call, 20 steps unless changed",
}


def taken(folder: Path, *reports: dict[int, float], **change: str) -> list[Question]:
    """Each report gives milliseconds of an iteration by batch."""
    rows = [
        {**ROW, **change, "batch": str(batch), "value": str(batch * 1e3 / ms)}
        for report in reports
        for batch, ms in report.items()
    ]
    with (folder / "today_images.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return image_questions(folder)


def measured(found: list[Question]) -> dict[float, float]:
    return {question.batch: question.measured_s for question in found}


def test_the_middle_of_three_counts_and_two_are_too_few(tmp_path: Path) -> None:
    found = taken(tmp_path, {1: 40, 2: 60}, {1: 90, 2: 130}, {1: 50})
    assert measured(found) == {2.0: pytest.approx(0.050)}  # two passes of the denoiser an image
    assert found[0].cells["reports"] == "3"


def test_a_batch_at_which_images_take_much_longer_is_not_counted(tmp_path: Path) -> None:
    searching = {1: 100, 2: 1300, 4: 2600}
    found = taken(tmp_path, searching, {1: 101, 2: 180, 4: 340}, {1: 102, 2: 181, 4: 341}, {1: 103, 2: 182, 4: 342})
    assert measured(found)[4.0] == pytest.approx(0.181)
    assert measured(found)[8.0] == pytest.approx(0.341)


def test_one_report_sent_thrice_is_one(tmp_path: Path) -> None:
    assert taken(tmp_path, {1: 40, 2: 60}, {1: 40, 2: 60}, {1: 40, 2: 60}) == []


def test_reports_of_a_program_that_moves_weights_are_apart(tmp_path: Path) -> None:
    reports = [{1: 250.0 + number} for number in range(3)]
    stack = "SD.next, torch 2.7.1+cu128, Scaled-Dot-Product, Windows"
    (moving,) = taken(tmp_path, *reports, model="Stable Diffusion XL", stack=stack)
    (staying,) = taken(tmp_path, *reports, model="Stable Diffusion XL")
    assert moving.moved_bytes > 0 == staying.moved_bytes


def test_the_range_of_a_single_report_is_as_wide_as_reports_differ(tmp_path: Path) -> None:
    usual = score(taken(tmp_path, {1: 100.0}, {1: 101.0}, {1: 102.0}))[0].predicted_s * 1e3
    widths = []
    for spread in (1.05, 1.5):
        taken(tmp_path, *({1: usual * spread ** (place / 10)} for place in range(-10, 11)))
        found = report_ranges(single_reports(tmp_path), lambda gpu: shipped())["report"]
        assert found.rows == 21
        widths.append(found.high / found.low)
    assert widths[0] < 1.2 < 1.5 < widths[1]


def test_a_single_report_has_a_wider_range_than_the_median_of_several(tmp_path: Path) -> None:
    (median,) = taken(tmp_path, {1: 100.0}, {1: 101.0}, {1: 102.0})
    (report, *_) = single_reports(tmp_path)["RTX 4090"]
    several, one = score([median])[0], score([report])[0]
    assert one.high_s / one.low_s > 1.2 * several.high_s / several.low_s
