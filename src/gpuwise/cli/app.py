"""The commands under one name."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuwise import __version__
from gpuwise.cli.bench import bench
from gpuwise.cli.build import build
from gpuwise.cli.capture import capture
from gpuwise.cli.charts import charts
from gpuwise.cli.compare import compare
from gpuwise.cli.cost import cost
from gpuwise.cli.doctor import doctor
from gpuwise.cli.fit import fit
from gpuwise.cli.gpus import gpus
from gpuwise.cli.matters import matters
from gpuwise.cli.plan import plan
from gpuwise.cli.predict import predict
from gpuwise.cli.prices import prices
from gpuwise.cli.reports import with_report
from gpuwise.cli.serve import serve
from gpuwise.cli.sweep import sweep
from gpuwise.cli.tune import tune
from gpuwise.cli.validate import validate
from gpuwise.cli.watch import watch
from gpuwise.cli.which import which
from gpuwise.cli.why import why

__all__ = ["app"]

app = typer.Typer(
    name="gpuwise",
    help="Which GPU should I get, and why is mine slow?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(with_report(gpus))
app.command()(with_report(capture))
app.command()(with_report(predict))
app.command()(with_report(fit))
app.command()(with_report(compare))
app.command()(with_report(which))
app.command()(with_report(charts))
app.command()(with_report(matters))
app.command()(with_report(cost))
app.command()(with_report(prices))
app.command()(with_report(build))
app.command()(with_report(plan))
app.command()(with_report(sweep))
app.command()(with_report(validate))
app.command()(with_report(why))
app.command(context_settings={"allow_interspersed_args": False})(with_report(watch))
app.command()(with_report(bench))
app.command()(with_report(tune))
app.command()(serve)
app.command()(with_report(doctor))


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gpuwise {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass
