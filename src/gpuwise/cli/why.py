"""`gpuwise why`: what a profiler file says about a slow run."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gpuwise import api
from gpuwise.cli.output import colour, print_json, print_text, terminal_width, wants_figure, write_figure
from gpuwise.errors import BadValue

__all__ = ["why"]

_FILES = "Traces of torch.profiler, TensorFlow, JAX or Nsight Systems (sqlite); a folder or pattern for several ranks."


def why(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help=_FILES)],
    model: Annotated[str, typer.Option(help="The model that ran: the step is held against its prediction.")] = "",
    gpu: Annotated[str, typer.Option(help="The GPU, where the trace does not name it.")] = "",
    compare: Annotated[str, typer.Option(help="Another trace: explain the difference to it.")] = "",
    form: Annotated[str, typer.Option("--format", help="text, markdown or html.")] = "text",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say why a training is slow: what a step is made of, its causes by what fixing them gives, what the trace cannot tell."""
    from gpuwise.report import why as report

    if form not in report.FORMATS:
        raise BadValue(f"'{form}' is no format", looked_in=", ".join(report.FORMATS), hint="for example `--format html`")
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
        from gpuwise.report.figures.causes import causes_figure

        write_figure(None, lambda: causes_figure(answer), quiet=json)


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
