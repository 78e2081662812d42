"""Compares captured multiply-accumulates of timm models with a published table.

    python tools/check_timm.py TABLE.csv [--every N]

The table has the columns model, image, gmacs and params_millions (as timm's own results list them). Its counter (fvcore)
also counts norms and some pooling: 2 an element for a batch norm, 5 for other norms, 1 for global pooling. Those are
added here, so that like is compared with like; the share without them is printed too. Prints each miss with both
figures. A miss that is understood stays a miss.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from dataclasses import dataclass

from gpuwise.errors import GpuwiseError
from gpuwise.workload import evaluate
from gpuwise.workload.sources.pytorch.step import capture
from gpuwise.workload.sources.registry import subject_of
from gpuwise.workload.sources.request import Request
from gpuwise.workload.sources.settings import Settings
from gpuwise.workload.symbols import Description, join
from gpuwise.workload.types import Workload

TOLERANCE = 0.02
PRINTED = 0.005  # the table prints two decimals


@dataclass(frozen=True, slots=True)
class Result:
    """One model: our figures beside the published ones, or why there are none."""

    model: str
    image: int
    ratio: float | None
    reason: str = ""
    plain_ratio: float = 0.0


def check(model: str, image: int, gmacs: float) -> Result:
    """Capture one forward pass at batch 1 (recorded at 2, halved: a batch of one has degenerate dimensions)."""
    request = Request(model=f"timm:{model}", image=image, settings=Settings(mode="infer"))
    try:
        captures, parameters = capture(subject_of(request), request.settings, [(2, None)])
    except GpuwiseError as error:
        return Result(model, image, None, error.message)
    except Exception as error:  # any failure of a model is a result here
        return Result(model, image, None, f"{type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}")
    about = Description(
        model=model, source="timm", mode="infer", precision="fp32", optimizer="", options={}, parameters=parameters
    )
    workload = join(captures, about)
    macs = evaluate.totals(workload).forward_flops / 4
    counted = macs + counted_beside(workload) / 2
    ratio = counted / (gmacs * 1e9)
    near = abs(counted / 1e9 - gmacs) <= TOLERANCE * gmacs + PRINTED
    reason = "" if near else f"{counted / 1e9:.3f} ({macs / 1e9:.3f} without norms) against {gmacs} GMACs"
    return Result(model, image, ratio, reason, macs / (gmacs * 1e9))


def counted_beside(workload: Workload) -> float:
    """What the table's counter adds for norms and global pooling, at the captured size."""
    values = evaluate.product_values(workload)[0]
    total = 0.0
    for call in workload.calls:
        op = workload.ops[call.op]
        elements = values[list(op.sizes)].prod() if op.kind == "norm" else values[op.sizes[0]]
        if op.kind == "norm":
            total += elements * (2 if "batch_norm" in op.name else 5)
        elif op.name in ("_adaptive_avg_pool2d", "mean"):
            total += elements
    return float(total)


def rows(path: str, every: int) -> Iterator[tuple[str, int, float]]:
    """Every n-th row of the table."""
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        for number, row in enumerate(csv.DictReader(file)):
            if number % every == 0:
                yield row["model"], int(float(row["image"])), float(row["gmacs"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("table")
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    start, results = time.monotonic(), []
    for row in rows(options.table, options.every):
        result = check(*row)
        results.append(result)
        if result.reason:
            print(f"{result.model} at {result.image}: {result.reason}", flush=True)
    built = [result for result in results if result.ratio is not None]
    good = [result for result in built if not result.reason]
    plain = sum(abs(result.plain_ratio - 1) <= TOLERANCE for result in built)
    print(f"without norms and pooling: {plain} of {len(built)} ({plain / max(1, len(built)):.1%})")
    print(
        f"{len(good)} of {len(built)} models that could be built are within {TOLERANCE:.0%} "
        f"({len(good) / max(1, len(built)):.1%}); "
        f"{len(results) - len(built)} could not be built; {time.monotonic() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
