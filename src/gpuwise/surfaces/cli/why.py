"""`gpuwise why`: what a profiler file says about a slow run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from gpuwise import api
from gpuwise.core.errors import BadValue
from gpuwise.surfaces.cli.output import colour, print_answer, print_json, print_text, terminal_width, wants_figure, write_figure
from gpuwise.surfaces.cli.progress import counting

__all__ = ["why"]

_FILES = "Traces of torch.profiler, TensorFlow, JAX or Nsight Systems (sqlite); a folder or pattern for several ranks."


def why(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help=_FILES)],
    model: Annotated[str, typer.Option(help="The model that ran: the step is held against its prediction.")] = "",
    gpu: Annotated[str, typer.Option(help="The GPU, where the trace does not name it.")] = "",
    compare: Annotated[str, typer.Option(help="Another trace: explain the difference to it.")] = "",
    each: Annotated[str, typer.Option(help="Many runs: every file, or every folder of ranks, is one (file, folder).")] = "",
    on: Annotated[str, typer.Option(help="Many runs: where (processes:4, dask://host:port); means --each file.")] = "",
    out: Annotated[Optional[Path], typer.Option(help="Many runs: the table as .parquet, .csv or .jsonl.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Many runs: drop what was done before.")] = False,
    form: Annotated[str, typer.Option("--format", help="text, markdown or html.")] = "text",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say why a training is slow: what a step is made of, its causes by what fixing them gives, what the trace cannot tell."""
    from gpuwise.questions.why import text as report

    if form not in report.FORMATS:
        raise BadValue(f"'{form}' is no format", looked_in=", ".join(report.FORMATS), hint="for example `--format html`")
    if each or on or out or fresh:
        _each(files, each or "file", {"model": model, "gpu": gpu, "on": on, "out": out, "fresh": fresh}, compare, form, json)
        return
    answer = api.why(files, model=model, gpu=gpu, compare=compare, progress=_Bar())
    if json:
        print_json(answer.to_dict())
    elif form == "html":
        print_text(report.render_html(answer))
    elif form == "markdown":
        print_text(report.render_markdown(answer))
    else:
        print_text(report.render(answer, width=terminal_width(), colour=colour()))
    if wants_figure(None):  # for a report
        from gpuwise.questions.why.figure import causes_figure

        write_figure(None, lambda: causes_figure(answer), quiet=json)


def _each(files: list[str], each: str, asked: dict[str, Any], compare: str, form: str, json: bool) -> None:
    """Many runs, one line each."""
    from gpuwise.questions.why.fleet_text import render

    if compare or form != "text":
        told = "--compare" if compare else f"--format {form}"
        raise BadValue(f"{told} is for one run, not for many", hint="leave --each, --on, --out and --fresh out")
    with counting("runs") as tell:
        answer = api.why_each(files, each=each, progress=tell, **asked)
    print_answer(answer, render, json=json)


class _Bar:
    """A line on stderr that grows while a file is read, where a person is watching."""

    def __init__(self) -> None:
        self._shown = ""

    def __call__(self, text: str, fraction: float) -> None:
        if not sys.stderr.isatty():
            return
        line = f"{text} {'█' * int(20 * fraction):20} {fraction:4.0%}"
        if line != self._shown:
            sys.stderr.write(f"\r{line}" + ("\n" if fraction >= 1.0 else ""))
            self._shown = line
