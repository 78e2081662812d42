"""Compares captured multiply-accumulates of timm models with a published table.

    python tools/check_timm.py TABLE.csv [--every N] [--only NAME ...]

The table has the columns model, image, gmacs and params_millions (as timm's own results list them). Its counter (fvcore) also
counts norms and some pooling. It counts 2 per element for a batch norm that uses its running averages, 5 for other norms, and 1
for global pooling. These are added here to make the comparison fair, and the share without them is printed as well. Prints each
miss with both figures and, if another way of counting gives the table's figure, the name of that way. A miss with an explanation
is still a miss.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from gpuwise.core.errors import GpuwiseError
from gpuwise.workload.capture.registry import subject_of
from gpuwise.workload.capture.request import Request
from gpuwise.workload.capture.torch.step import Subject, capture
from gpuwise.workload.model import evaluate
from gpuwise.workload.model.symbols import Description, join
from gpuwise.workload.model.types import CATEGORIES, Settings, Workload

TOLERANCE = 0.02
PRINTED = 0.005  # the table prints two decimals


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table."""

    model: str
    image: int
    gmacs: float
    millions: float

    def is_near(self, macs: float) -> bool:
        """Whether this number of multiply-accumulates matches the row, within the tolerance and rounding."""
        return abs(macs / 1e9 - self.gmacs) <= TOLERANCE * self.gmacs + PRINTED


@dataclass(frozen=True, slots=True)
class Result:
    """Our figures and the published ones, or the reason why there are none."""

    row: Row
    ratio: float | None
    reason: str = ""
    plain_ratio: float = 0.0


@dataclass(frozen=True, slots=True)
class Count:
    """Multiply-accumulates for one image, without and with what the table's counter adds, and the number of parameters."""

    macs: float
    counted: float
    parameters: int


def check(row: Row) -> Result:
    """Count one row, and look for the reason if it differs."""
    request = Request(model=f"timm:{row.model}", image=row.image, settings=Settings(mode="infer"))
    try:
        subject = subject_of(request)
        found = count(subject)
    except GpuwiseError as error:
        return Result(row, None, error.message)
    except Exception as error:  # any failure of a model is a result here
        return Result(row, None, f"{type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}")
    ratios = found.counted / (row.gmacs * 1e9), found.macs / (row.gmacs * 1e9)
    if row.is_near(found.counted):
        return Result(row, ratios[0], "", ratios[1])
    reason = f"{found.counted / 1e9:.3f} ({found.macs / 1e9:.3f} without norms) against {row.gmacs} GMACs"
    return Result(row, ratios[0], f"{reason}: {why(row, subject, found)}", ratios[1])


def count(subject: Subject, seen: Callable[[str], bool] = lambda module: True) -> Count:
    """Capture the forward pass at batch sizes 2 and 3 and extrapolate to 1, because a batch of one has degenerate dimensions."""
    captures, parameters = capture(subject, Settings(mode="infer"), [(2, None), (3, None)])
    about = Description(model="", source="timm", mode="infer", precision="fp32", optimizer="", options={}, parameters=parameters)
    two, three = (join([one], about) for one in captures)
    macs = 2 * forward_macs(two, seen) - forward_macs(three, seen)
    return Count(macs, macs + 2 * counted_beside(two) - counted_beside(three), parameters)


def forward_macs(workload: Workload, seen: Callable[[str], bool]) -> float:
    """Multiply-accumulates for the whole batch, in the recorded modules."""
    flops = evaluate.op_flops(workload, evaluate.product_values(workload))[0]
    return float(sum(flops[call.op] for call in workload.calls if seen(workload.modules[call.module]))) / 2


def counted_beside(workload: Workload) -> float:
    """What the table's counter adds for norms and global pooling, at the captured size."""
    values = evaluate.product_values(workload)[0]
    weight = CATEGORIES.index("weight")
    total = 0.0
    for call in workload.calls:
        op = workload.ops[call.op]
        if op.kind == "norm":
            # weight standardisation has no running averages
            running = "batch_norm" in op.name and workload.buffers[call.reads[0]].category != weight
            total += values[list(op.sizes)].prod() * (2 if running else 5)
        elif op.name in ("_adaptive_avg_pool2d", "mean"):
            total += values[op.sizes[0]]
    return float(total)


# ---------------------------------------------------------------- reasons


def why(row: Row, subject: Subject, found: Count) -> str:
    """Which other model or way of counting gives the table's figure. All of them are tried."""
    if abs(found.parameters / 1e6 - row.millions) > 0.01 * row.millions:
        different = f"{found.parameters / 1e6:.2f} against {row.millions} million parameters"
    else:
        different = ""
    for reason, other in (
        ("the table has the branches of training folded into one", _folded),
        ("the table has attention written out, without the fused kernel", _unfused),
        ("the table's counter does not see convolutions with padding 'same'", _without_same_padding),
    ):
        try:
            if row.is_near(other(subject).counted):
                return reason
        except Exception:  # noqa: S112 -- a way of counting that does not apply to this model
            continue
    return f"the table is of another model, {different}" if different else "not understood"


def _folded(subject: Subject) -> Count:
    from timm.utils.model import reparameterize_model

    return count(replace(subject, build=lambda: reparameterize_model(subject.build(), inplace=True)))


def _unfused(subject: Subject) -> Count:
    from timm.layers import set_fused_attn

    set_fused_attn(False)
    try:
        return count(subject)
    finally:
        set_fused_attn(True)


def _without_same_padding(subject: Subject) -> Count:
    names: set[str] = set()

    def build() -> object:
        model = subject.build()
        names.update(name for name, module in model.named_modules() if getattr(module, "padding", None) == "same")
        return model

    return count(replace(subject, build=build), lambda module: module not in names)


# ---------------------------------------------------------------- the table


def rows(path: str, every: int, only: list[str]) -> Iterator[Row]:
    """Every nth row of the table, or the rows for these models."""
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        for number, row in enumerate(csv.DictReader(file)):
            if row["model"] in only or (not only and number % every == 0):
                yield Row(row["model"], int(float(row["image"])), float(row["gmacs"]), float(row["params_millions"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("table")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    start, results = time.monotonic(), []
    for row in rows(options.table, options.every, options.only):
        result = check(row)
        results.append(result)
        if result.reason:
            print(f"{row.model} at {row.image}: {result.reason}", flush=True)
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
