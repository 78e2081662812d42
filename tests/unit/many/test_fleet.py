"""Many runs at once: each is what `why` says of it alone, the worst comes first, and what cannot be read is a row."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.core.errors import BadFile, BadValue, GpuwiseError, MissingExtra
from gpuwise.questions.why import fleet
from gpuwise.questions.why.answer import answer
from gpuwise.questions.why.fleet import FleetAnswer
from gpuwise.questions.why.options import WhyOptions
from gpuwise.questions.why.remote import at_hand, list_urls, stamp
from gpuwise.surfaces.cli.app import app
from making_traces import Run, training


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three runs of one file each, one of which waits for its loader most of the time, and a file that is none."""
    for name, load_us in (("quick", 10.0), ("starved", 50_000.0), ("slow", 2_000.0)):
        (tmp_path / name).mkdir()
        training(load_us=load_us).write(tmp_path / name / "trace.json.gz")
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "trace.json.gz").write_bytes(b"\x1f\x8bnothing")
    return tmp_path


def _each(runs: Path, **asked: object) -> FleetAnswer:
    return gpuwise.why([f"{runs}/*/trace.json.gz"], **({"on": "here"} | asked))  # type: ignore[arg-type]


def test_the_worst_run_comes_first_and_what_cannot_be_read_last(runs: Path) -> None:
    answer = _each(runs)
    assert [Path(job.job).parent.name for job in answer.jobs] == ["starved", "slow", "quick", "cut"]
    assert answer.jobs[0].code == "input_starved"
    assert answer.jobs[-1].reason
    assert answer.jobs[-1].step_s is None


def test_every_row_is_what_why_says_of_the_run_alone(runs: Path) -> None:
    for job in _each(runs).jobs[:3]:
        alone = gpuwise.why([job.job]).to_dict()
        assert (job.step_s, job.busy_fraction, job.verdict, job.gpu) == tuple(
            alone[name] for name in ("step_s", "busy_fraction", "verdict", "gpu")
        )
        assert list(job.findings) == alone["findings"]


def test_files_of_one_folder_are_ranks_of_one_run_where_asked(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for rank in range(2):
            training(Run(rank=rank, world_size=2), reduce_us=100.0).write(tmp_path / name / f"{rank}.json")
    by_folder = gpuwise.why([str(tmp_path)], each="folder", on="here")
    assert [(Path(job.job).name, job.files, job.reason) for job in by_folder.jobs] == [("a", 2, None), ("b", 2, None)]
    assert [job.files for job in gpuwise.why([str(tmp_path)], on="here").jobs] == [1] * 4


def test_without_being_asked_several_files_are_still_ranks_of_one_run(tmp_path: Path) -> None:
    for rank in range(2):
        training(Run(rank=rank, world_size=2), reduce_us=100.0).write(tmp_path / f"{rank}.json")
    result = CliRunner().invoke(app, ["why", str(tmp_path), "--json"])
    assert [entry["rank"] for entry in json.loads(result.stdout)["ranks"]] == [0, 1]


def test_a_stopped_diagnosis_goes_on(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, done = runs / "all.jsonl", fleet.diagnosed
    begun: list[str] = []

    def until_the_third(task: fleet.FleetTask) -> bytes:
        begun.append(task.job)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return done(task)

    monkeypatch.setattr(fleet, "diagnosed", until_the_third)
    with pytest.raises(KeyboardInterrupt):
        _each(runs, out=out)
    assert not out.exists()
    answer = _each(runs, out=out)
    assert answer.kept_parts == 2
    assert len(begun) == 5
    assert sorted(set(begun)) == sorted(job.job for job in answer.jobs)
    assert [json.loads(line)["job"] for line in out.read_text(encoding="utf-8").splitlines()] == [job.job for job in answer.jobs]
    assert _each(runs, out=out).jobs == answer.jobs
    assert len(begun) == 5


def test_without_a_table_what_is_done_is_kept_until_the_end(
    runs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kept = tmp_path_factory.mktemp("kept")
    monkeypatch.setenv("GPUWISE_CACHE", str(kept))

    def interrupted(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        answer(WhyOptions([f"{runs}/*/trace.json.gz"], on="here"), progress_of_many=interrupted)
    assert len(list(kept.glob("why/*/*.part"))) == 2
    assert _each(runs).kept_parts == 2
    assert list(kept.glob("why/*")) == []


def test_a_trace_that_changed_is_another_question(runs: Path) -> None:
    _each(runs, out=runs / "all.csv")
    training(load_us=77.0).write(runs / "quick" / "trace.json.gz")
    with pytest.raises(BadValue, match="a different command"):
        _each(runs, out=runs / "all.csv")


@pytest.mark.slow
def test_processes_say_the_same(runs: Path) -> None:
    assert _each(runs, on="processes:2").jobs == _each(runs).jobs


def test_urls_are_listed_and_fetched(runs: Path) -> None:
    pytest.importorskip("fsspec")
    urls = list_urls(f"file://{runs}/*/trace.json.gz")
    assert len(urls) == 4
    assert all(url.startswith("file://") for url in urls)
    with at_hand([urls[0], "here.json"]) as files:
        assert Path(files[0]).name == "trace.json.gz"
        assert Path(files[0]).read_bytes() == Path(urls[0].removeprefix("file://")).read_bytes()
        assert files[1] == "here.json"
        fetched = files[0]
    assert not Path(fetched).exists()
    assert stamp(urls[0]) == stamp(urls[0])
    remote = gpuwise.why([f"file://{runs}/*/trace.json.gz"], on="here")
    assert [job.verdict for job in remote.jobs] == [job.verdict for job in _each(runs).jobs]


def test_a_place_that_needs_an_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(MissingExtra) as told:
        list_urls("s3://bucket/*.json")
    assert told.value.hint == 'run `pip install "gpuwise[s3]"`'
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingExtra, match="fsspec"):
        list_urls("s3://bucket/*.json")


@pytest.mark.parametrize("url", ["nowhere://x/*.json", "file:///does/not/exist/*.json", "memory://none.json"])
def test_an_address_that_leads_nowhere_is_told(url: str) -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(GpuwiseError):
        list_urls(url)


def test_what_is_for_one_run_is_refused_for_many(runs: Path) -> None:
    for more in (["--compare", "x.json"], ["--format", "html"]):
        result = CliRunner().invoke(app, ["why", f"{runs}/*/*.gz", "--each", "file", *more])
        assert isinstance(result.exception, BadValue)
    for asked in ({"each": "rank"}, {"gpu": "no such GPU"}, {"model": "resnet5o"}, {"out": runs / "x.txt"}):
        with pytest.raises(GpuwiseError):
            _each(runs, **asked)
    with pytest.raises(BadValue, match="is a remote path"):
        gpuwise.why(["s3://bucket/trace.json"])
    with pytest.raises(BadFile):
        gpuwise.why([f"{runs}/none/*.json"], each="file")


def test_the_text_names_every_run(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs)
    result = CliRunner().invoke(app, ["why", "*/trace.json.gz", "--on", "here"])
    assert result.exit_code == 0, result.exception
    lines = result.stdout.splitlines()
    assert lines[0] == "3 runs, 2 with a significant cause; 1 could not be read"
    assert lines[3].startswith("starved/trace.json.gz")
    assert any(line.startswith("cut/trace.json.gz: ") for line in lines)
