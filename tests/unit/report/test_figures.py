"""Charts: every value is drawn at its place, nothing overlaps or leaves the page, and files are whole or not written."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.core.errors import BadFile, BadValue, GpuwiseError, MissingExtra
from gpuwise.questions.predict.figure import steps_figure
from gpuwise.questions.validate.figure import accuracy_figure
from gpuwise.render import look
from gpuwise.render.axes import labels, place, ticks
from gpuwise.render.chart import Axis, Bar, Bars, Figure, Mark, Plot, Segment, Series
from gpuwise.render.files import check_figure, save
from gpuwise.render.svg import draw
from gpuwise.surfaces.cli.app import app

SVG = "{http://www.w3.org/2000/svg}"
HEADER = (
    "source,gpu,gpu_count,model,family,framework,framework_version,stack,layout,mode,precision,optimizer,batch_per_gpu,"
    "image_or_seq,step_ms"
)


def drawn(figure: Figure) -> ElementTree.Element:
    return ElementTree.fromstring(draw(figure))  # noqa: S314 (our own text)


def bars(*values: float, high: float = 10.0) -> Figure:
    rows = tuple(Bar(label=f"row {place}", segments=(Segment(value=value),)) for place, value in enumerate(values))
    return Figure(title="t", panels=(Bars(title="p", axis=Axis(title="a", low=0, high=high), bars=rows),))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("figures") / "mine.csv"
    rows = [
        f"own,{gpu},1,resnet50,resnet,torch,2.4,eager,nchw,train,fp32,sgd,{batch},224,{ms}"
        for gpu, batch, ms in (("RTX 3090", 32, 90), ("RTX 3090", 64, 170), ("RTX 4090", 64, 110), ("T4", 32, 300))
    ]
    path.write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    return path


# ---------------------------------------------------------------- drawing


def test_a_bar_is_as_long_as_its_value() -> None:
    widths = [float(entry.attrib["width"]) for entry in drawn(bars(2, 4, 8)).iter(f"{SVG}rect") if "rx" in entry.attrib]
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.2)
    assert widths[2] == pytest.approx(4 * widths[0], abs=0.2)


def test_a_logarithmic_axis_spaces_decades_evenly() -> None:
    axis = Axis(title="", low=1e-3, high=1.0, unit="s", log=True)
    assert [place(axis, value) for value in (1e-3, 1e-2, 1e-1, 1.0)] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert labels(axis, ticks(axis)) == ["1 ms", "10 ms", "100 ms", "1 s"]
    assert place(axis, 5.0) == 1.0


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.1), (0.0, 2.07), (0.0, 3e-5), (0.0, 1234.0), (12.0, 13.0)])
def test_ticks_are_few_and_inside_the_axis(low: float, high: float) -> None:
    found = ticks(Axis(title="", low=low, high=high))
    assert 2 <= len(found) <= 8
    assert all(low <= value <= high * (1 + 1e-9) for value in found)


@pytest.mark.parametrize("high", [0.013, 0.7, 1.6, 2.4, 9.0, 31.0, 1700.0, 2_000_000.0])
@pytest.mark.parametrize("unit", ["", "%", "s", "FLOP/s"])
@pytest.mark.parametrize("count", [4, 6, 9])
def test_no_two_ticks_read_the_same_and_none_is_rounded(high: float, unit: str, count: int) -> None:
    axis = Axis(title="", low=0.0, high=high, unit=unit)
    texts = labels(axis, ticks(axis, count))
    assert len(set(texts)) == len(texts) >= 2
    if not unit:
        assert [float(text.replace(",", "")) for text in texts] == pytest.approx(ticks(axis, count), abs=1e-12)


def test_digits_follow_the_step() -> None:
    axis = Axis(title="", low=0.0, high=1.6)
    assert labels(axis, ticks(axis, 8)) == ["0", "0.2", "0.4", "0.6", "0.8", "1.0", "1.2", "1.4", "1.6"]


@pytest.mark.parametrize(
    ("low", "high", "log", "texts"),
    [
        (400.0, 9e6, True, ["10 min", "1 h", "10 h", "1 day", "10 days", "100 days"]),
        (2_000.0, 40_000.0, True, ["1 h", "2 h", "5 h", "10 h"]),
        (0.02, 700.0, True, ["100 ms", "1 s", "10 s", "1 min", "10 min"]),
        (0.0, 700.0, False, ["0", "2 min", "4 min", "6 min", "8 min", "10 min"]),
        (0.0, 700_000.0, False, ["0", "2 days", "4 days", "6 days", "8 days"]),
    ],
)
def test_times_are_round_on_a_clock(low: float, high: float, log: bool, texts: list[str]) -> None:
    axis = Axis(title="", low=low, high=high, unit="s", log=log)
    assert labels(axis, ticks(axis)) == texts


def test_text_from_outside_cannot_become_markup() -> None:
    figure = bars(1)
    nasty = '<script>alert(1)</script>&"'
    root = drawn(replace(figure, title=nasty, subtitle=nasty, footer=nasty, legend=((nasty, 0),)))
    assert not list(root.iter(f"{SVG}script"))
    assert nasty in [entry.text for entry in root.iter(f"{SVG}text")]


def test_series_differ_in_colour_and_neighbours_in_shape() -> None:
    axis = Axis(title="", low=1, high=10)
    series = tuple(Series(label=str(place), colour=place, marks=(Mark(x=place + 1, y=5, tip="tip"),)) for place in range(8))
    root = drawn(Figure(title="t", panels=(Plot(title="p", x=axis, y=axis, series=series),)))
    marks = [entry for entry in root.iter() if entry.find(f"{SVG}title") is not None and "fill" in entry.attrib]
    assert len({entry.attrib["fill"] for entry in marks}) == 8 == len(look.PALETTE)
    assert all(entry.find(f"{SVG}title").text == "tip" for entry in marks)  # type: ignore[union-attr]


def test_nothing_is_drawn_outside_the_page_and_labels_do_not_overlap() -> None:
    answer = gpuwise.predict(model="resnet50", gpu=["RTX 3090", "T4", "GTX 1060 3GB"], precision="fp32")
    root = drawn(steps_figure(answer))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = []
    for entry in root.iter(f"{SVG}text"):
        long = look.text_width(entry.text or "", float(entry.attrib["font-size"]))
        left = float(entry.attrib["x"]) - {"start": 0.0, "middle": long / 2, "end": long}[entry.attrib["text-anchor"]]
        y = float(entry.attrib["y"])
        if "transform" not in entry.attrib:
            boxes.append((left, y - 0.7 * float(entry.attrib["font-size"]), left + long, y, entry.text))
    assert all(left >= -2 and right <= width + 2 and top >= 0 and bottom <= height for left, top, right, bottom, _ in boxes)
    crossing = [
        (one[4], two[4])
        for place, one in enumerate(boxes)
        for two in boxes[place + 1 :]
        if one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]
    ]
    assert crossing == []


# ---------------------------------------------------------------- from answers


def test_every_residual_is_a_point_and_every_gpu_a_bar(table: Path) -> None:
    answer = gpuwise.validate(table)
    figure = accuracy_figure(answer)
    plot, errors = figure.panels
    assert isinstance(plot, Plot)
    assert isinstance(errors, Bars)
    assert {(mark.x, mark.y) for series in plot.series for mark in series.marks} == {
        (row.measured_s, row.predicted_s) for row in answer.residuals
    }
    labels = [bar.label for bar in errors.bars]
    assert {"RTX 3090", "RTX 4090", "T4", "simple rules", "by FLOP/s", "roofline"} <= set(labels)
    assert str(answer.data_date) in figure.footer
    drawn(figure)


def test_a_long_table_is_thinned_and_says_so(table: Path) -> None:
    answer = gpuwise.validate(table)
    long = replace(answer, residuals=tuple(replace(row, row=number) for number in range(3000) for row in answer.residuals))
    figure = accuracy_figure(long)
    plot = figure.panels[0]
    assert isinstance(plot, Plot)
    drawn_marks = sum(len(series.marks) for series in plot.series)
    assert 2000 <= drawn_marks <= 4000
    assert f"{drawn_marks:,} of 12,000 rows" in figure.footer
    assert "12,000 rows" in figure.title


def test_a_table_of_which_nothing_could_be_predicted_still_has_a_figure(table: Path) -> None:
    answer = gpuwise.validate(table)
    empty = replace(answer, residuals=(), by={"gpu": {}, "family": {}, "source": {}}, baselines={})
    drawn(accuracy_figure(empty))


def test_the_figure_of_one_gpu_shows_its_ops_and_its_roof() -> None:
    answer = gpuwise.predict(model="bert-base", gpu=["RTX 3090"])
    figure = steps_figure(answer)
    ops, roof = figure.panels
    assert isinstance(ops, Bars)
    assert isinstance(roof, Plot)
    assert ops.bars[0].label == answer.results[0].by_op[0].op
    peak = answer.results[0].peak_flops_per_s
    assert max(y for line in roof.lines for _, y in line.points) == peak
    assert str(answer.data_date) in figure.footer


def test_what_limits_each_gpu_adds_up_to_the_whole_bar() -> None:
    answer = gpuwise.predict(model="resnet50", gpu=["RTX 3090", "RTX 3060 Ti"], batch="auto")
    assert len({result.batch for result in answer.results}) == 2  # steps of different size are no bars side by side
    speeds, limits = steps_figure(answer).panels
    assert isinstance(speeds, Bars)
    assert isinstance(limits, Bars)
    assert [sum(segment.value for segment in bar.segments) for bar in limits.bars] == pytest.approx([1, 1])
    assert speeds.axis.title == "samples per second"
    for bar in speeds.bars:
        assert (bar.low or 0) < bar.segments[0].value < (bar.high or 0)


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("ending", [".svg", ".html"])
def test_pictures_and_pages_need_no_extra_and_no_network(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"out{ending}"
    save(bars(1, 2), path)
    text = path.read_text(encoding="utf-8")
    assert "<svg" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_png_is_a_png_or_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.png"
    with monkeypatch.context() as patch:
        patch.setattr("gpuwise.render.files.find_spec", lambda name: None)
        with pytest.raises(MissingExtra, match="resvg-py") as caught:
            save(bars(1), path)
        assert caught.value.hint == 'run `pip install "gpuwise[figures]"`'
        assert not path.exists()
    pytest.importorskip("resvg_py")
    save(bars(1), path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_figure_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    for path, fault in ((tmp_path / "out.gif", BadValue), (tmp_path / "out", BadValue), (tmp_path / "no" / "out.svg", BadFile)):
        with pytest.raises(fault) as caught:
            check_figure(path)
        assert caught.value.hint
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(BadFile, match="is a folder"):
        check_figure(tmp_path / "folder.svg")


@pytest.mark.skipif(sys.platform == "win32", reason="rights of folders differ")
def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.svg"
    path.write_text("old", encoding="utf-8")

    def fail(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(BadFile, match="No space left"):
        save(bars(1), path)
    assert path.read_text(encoding="utf-8") == "old"


def test_both_commands_draw(table: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.svg"
    done = CliRunner().invoke(app, ["validate", "--held-out", str(table), "--figure", str(path), "--json"])
    assert json.loads(done.stdout)["predicted"] == 4
    assert "Predicted and measured times" in path.read_text(encoding="utf-8")
    done = CliRunner().invoke(app, ["predict", "resnet18", "--gpu", "T4", "--figure", str(path)])
    assert done.output.rstrip().endswith(f"figure: {path}")
    assert "resnet18 on T4" in path.read_text(encoding="utf-8")
    done = CliRunner().invoke(app, ["predict", "resnet18", "--gpu", "T4", "--figure", "out.jpeg"])
    assert isinstance(done.exception, GpuwiseError)
    assert not done.stdout
