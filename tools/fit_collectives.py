"""Fits the constants of collectives to published measurements. Writes `scale/data/collectives.json` and, for values specific to
the sources, `evidence/data/collective_sources.json`.

    python tools/fit_collectives.py ../shared/evidence/collectives.parquet --sources
    python tools/fit_collectives.py ../shared/evidence/collectives.parquet [--dry-run]

Only every other octave of message sizes is fitted (2^9 to 2^10 held back, 2^10 to 2^11 fitted, and so on). The rest is the test
set. Each kind of path has constants, and each measured link has its own, shrunk towards those of its kind. An unmeasured link
uses those of its kind. Values that are not in the table are set here with their source.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gpuwise.core.files import write_whole
from gpuwise.evidence import collectives as measured
from gpuwise.evidence.collectives import CollectiveSet, collective_sets, predicted_s
from gpuwise.evidence.tables import read_table
from gpuwise.scale.cluster import collectives as shipped
from gpuwise.scale.cluster.collectives import OPS, moved_fraction

DATA = Path(shipped.__file__).parents[1] / "data" / "collectives.json"
SOURCES = Path(measured.__file__).parent / "data" / "collective_sources.json"
LARGE_BYTES, SMALL_BYTES = 2**24, 2**20
FITTED_OPS = [op for op in OPS if op != "broadcast"]
MESHES = ("NVLink 2 (V100, 6 links)",)  # hybrid cube mesh: which links a ring finds depends on the number of GPUs
NO_SWITCHING = ("NVLink 2 NVSwitch (V100, DGX-2)", "NVLink 3 NVSwitch (A100, 12 links)")  # switches before NVLink 4 do not add
SIGMA, KNEE, ROUNDS, LONGEST, MOST_ROWS = 0.08, 1.5, 30, 0.5, 16
LOOSE, TIGHT = 0.7, 0.35  # how far a link may deviate from its kind, in ln, in the first and second round
# Relative to two cards: Titan X Pascal on PCIe 3.0 12.2 / 11.2 / 8.8 GB/s on 2 / 4 / 8 (DeepBench), RTX PRO 6000 on PCIe 5.0
# 39 / 26 / 25 (rtx6kpro-pcie5). Geometric means.
PCIE_BY_COUNT = {"2": 1.0, "4": 0.75, "8": 0.66}
PCIE_RATE = 0.72  # of the rate of plain copies: 39 of 55 GB/s on two RTX PRO 6000
# Through the host's memory: M40 and P100 over PCIe 3.0, NCCL with one process a card, 5.7 to 6.2 GB/s on 2, 4 and 8 (DeepBench).
HOST_RATE = 6.0 / (15.75 * 0.785)


def first_guess(**changes: Any) -> dict[str, Any]:
    """What physics suggests without any rows, which is a rate near that of the link and a start time of microseconds."""
    rate = dict.fromkeys(OPS, 1.0)
    own = {op: 2.5 for op in OPS if op not in ("broadcast", "send_recv")}
    base = {"start_s": 6e-6, "pair_start": 1.25, "hop": 1.0, "ramp_s": 4e-5, "ramp_hop_s": 6e-6, "ramp_bytes": 2.4e6}
    share = {"all_to_all": 1.0, "send_recv": 0.3}  # straight to the receiver: a shorter pipeline
    return {
        **base,
        "ramp_share": share,
        "rate": rate,
        "own": own,
        "by_count": {},
        "in_switch": None,
        "in_switch_hops": 8.0,
        **changes,
    }


def first_constants() -> dict[str, Any]:
    paths = {
        "nvswitch": first_guess(in_switch=0.75),
        "nvlink": first_guess(),
        "pcie": first_guess(
            ramp_s=2e-5, ramp_hop_s=3e-6, ramp_bytes=1e6, by_count=PCIE_BY_COUNT, rate=dict.fromkeys(OPS, PCIE_RATE)
        ),
        "pairs": first_guess(ramp_s=2e-5, ramp_hop_s=3e-6, ramp_bytes=1e6),
        "host": first_guess(hop=3.0, ramp_s=2e-5, ramp_hop_s=3e-6, ramp_bytes=1e6, rate=dict.fromkeys(OPS, HOST_RATE)),
        "network": first_guess(start_s=1e-5, ramp_s=2e-5, ramp_hop_s=5e-6, ramp_bytes=1e6, own={}),
    }
    return {"paths": paths, "links": {name: {"in_switch": None} for name in NO_SWITCHING}, "ranges": {}}


# ---------------------------------------------------------------- unknowns


def unknowns(entry: Mapping[str, Any], key: str) -> list[tuple[str, str]]:
    """The places of the numbers to fit: (name, sub-name)."""
    ops = [op for op in FITTED_OPS if op in entry["own"]]
    if key == "network":  # two clouds say little about others, so latencies stay as in links.toml
        return [("ramp_s", ""), ("ramp_hop_s", ""), ("ramp_bytes", "")]
    found = [(name, "") for name in ("start_s", "pair_start", "hop", "ramp_s", "ramp_hop_s", "ramp_bytes")]
    found += [("ramp_share", op) for op in entry["ramp_share"]]
    found += [("rate", op) for op in FITTED_OPS] + [("own", op) for op in ops]
    if entry["in_switch"]:
        found += [("in_switch", ""), ("in_switch_hops", "")]
    if key in MESHES:
        found += [("by_count", str(count)) for count in range(2, 9)]
    return found


def read(entry: Mapping[str, Any], places: Sequence[tuple[str, str]]) -> Any:
    return np.log([entry[name][part] if part else entry[name] for name, part in places])


def written(entry: Mapping[str, Any], places: Sequence[tuple[str, str]], theta: Any) -> dict[str, Any]:
    changed = {name: dict(value) if isinstance(value, Mapping) else value for name, value in entry.items()}
    for (name, part), value in zip(places, np.exp(theta), strict=True):
        if part:
            changed[name][part] = float(value)
        else:
            changed[name] = float(value)
    return changed


# ---------------------------------------------------------------- rows


def key_of(entry: CollectiveSet) -> str:
    """The link or kind of path whose constants a set of rows determines."""
    if entry.outer > 1:
        return "network"
    return "pairs" if entry.inner > entry.cluster.wires.joined else entry.cluster.gpu_link.name


def kind_of(key: str, entry: CollectiveSet) -> str:
    if key in ("network", "pairs"):
        return key
    return {"nvswitch": "nvswitch", "pcie": "pcie"}.get(entry.cluster.gpu_link.kind, "nvlink")


def is_fitted(size: Any) -> Any:
    """Every other octave."""
    return np.floor(np.log2(size)).astype(int) % 2 == 0


def is_trusted(entry: CollectiveSet) -> bool:
    """L40S on four and eight cards was probably measured across sockets."""
    return not (entry.gpu == "L40S" and entry.ranks > 2)


def weights(entry: CollectiveSet) -> Any:
    """Every octave of a set has the same weight. For sources that call through torch, small messages reflect the host."""
    octave = np.floor(np.log2(entry.size_bytes)).astype(int)
    _, inverse, counts = np.unique(octave, return_inverse=True, return_counts=True)
    hosted = (entry.library == "NCCL via torch") & (entry.size_bytes < 2**20)
    return np.where(is_fitted(entry.size_bytes) & ~hosted, 1.0 / counts[inverse], 0.0)


def thinned(entry: CollectiveSet) -> CollectiveSet:
    """A limited number of rows per octave, because a thousand sizes add no information."""
    octave = np.floor(np.log2(entry.size_bytes)).astype(int)
    kept = np.concatenate(
        [np.flatnonzero(octave == one)[:: 1 + int((octave == one).sum()) // MOST_ROWS] for one in np.unique(octave)]
    )
    rows = tuple(entry.rows[place] for place in kept)
    return replace(entry, rows=rows, size_bytes=entry.size_bytes[kept], measured_s=entry.measured_s[kept])


def off(sets: Sequence[CollectiveSet], constants: Mapping[str, Any]) -> Any:
    """ln(predicted / measured) of every row."""
    return np.concatenate([np.log(predicted_s(entry, constants) / entry.measured_s) for entry in sets])


# ---------------------------------------------------------------- fit


def fit_one(
    key: str, sets: Sequence[CollectiveSet], constants: dict[str, Any], prior: Mapping[str, Any], spread: float
) -> dict[str, Any]:
    """The constants of one link or path, shrunk towards `prior` (robust Gauss-Newton in logarithms)."""
    places = unknowns(prior, key)
    believed = read(prior, places)
    theta = believed.copy()
    weight = np.sqrt(np.concatenate([weights(entry) for entry in sets]))

    def residuals(values: Any) -> Any:
        return off(sets, _with(constants, key, written(prior, places, values)))

    for _ in range(ROUNDS):
        now = residuals(theta)
        slopes = np.stack([(residuals(theta + 0.01 * unit) - now) / 0.01 for unit in np.eye(len(theta))], axis=1)
        pull = weight / SIGMA / np.sqrt(1 + (now / (KNEE * SIGMA)) ** 2)
        scaled = slopes * pull[:, None]
        hessian = scaled.T @ scaled + np.eye(len(theta)) / spread**2
        gradient = -scaled.T @ (now * pull) - (theta - believed) / spread**2
        move = np.clip(np.linalg.solve(hessian + 1e-3 * np.diag(np.diag(hessian)), gradient), -LONGEST, LONGEST)
        theta = theta + move
        if np.abs(move).max() < 2e-3:
            break
    return written(prior, places, theta)


def _with(constants: Mapping[str, Any], key: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    where = "paths" if key in constants["paths"] else "links"
    return {**constants, where: {**constants[where], key: entry}}


def mean_of(entries: Sequence[Mapping[str, Any]], prior: Mapping[str, Any]) -> dict[str, Any]:
    """What links of a kind have in common, as the mean of their logarithms, with the first guess as one more link."""
    places = [place for place in unknowns(prior, "") if place[0] != "by_count"]
    known = [read({**prior, **{name: value for name, value in entry.items() if value}}, places) for entry in entries]
    return written(prior, places, np.mean([read(prior, places), *known], axis=0))


def fit(sets: Sequence[CollectiveSet], without: str = "") -> dict[str, Any]:
    """All constants. `without` leaves out the rows of one link."""
    used: dict[str, list[CollectiveSet]] = {}
    for entry in sets:
        if is_trusted(entry) and key_of(entry) != without:
            used.setdefault(key_of(entry), []).append(thinned(entry))
    constants = first_constants()
    kinds: dict[str, list[str]] = {}
    for key, members in used.items():
        kinds.setdefault(kind_of(key, members[0]), []).append(key)
    for spread in (LOOSE, TIGHT):
        for kind in sorted(kinds, key=lambda name: name == "network"):
            for key in kinds[kind]:
                prior = {**constants["paths"][kind]} | ({"in_switch": None} if key in NO_SWITCHING else {})
                if key in MESHES:
                    prior["by_count"] = {str(count): count / 8 for count in range(2, 9)}
                found = fit_one(key, used[key], constants, prior, TIGHT if kind == "network" else spread)
                constants = _with(constants, key, found)
            if kind not in ("network", "pairs"):
                alike = [constants["links"][key] for key in kinds[kind] if key not in MESHES]  # meshes resemble no other link
                constants["paths"][kind] = mean_of(alike, first_constants()["paths"][kind])
    return finished(constants)


def finished(constants: dict[str, Any]) -> dict[str, Any]:
    """Broadcasts, which no row contains, use the rate of a gather. P100 meshes have the same shape as V100 meshes."""
    for entry in [*constants["paths"].values(), *constants["links"].values()]:
        if "rate" in entry:
            entry["rate"]["broadcast"] = entry["rate"]["all_gather"]
    for mesh in (constants["links"].get(name) for name in MESHES):
        if mesh:
            constants["links"]["NVLink 1 (P100, 4 links)"] = {"by_count": mesh["by_count"]}
    return constants


def of_sources(sets: Sequence[CollectiveSet]) -> dict[str, Any]:
    """Infers what sources do not state from the fitted octaves. This is the rate of a GPU's adapter in unnamed networks (large
    messages of one GPU per node), and the minimum time of calls through torch (small messages inside a node)."""
    rates: dict[str, list[float]] = {}
    small: dict[str, list[float]] = {}
    for entry in sets:
        fitted = is_fitted(entry.size_bytes)
        large = fitted & (entry.size_bytes >= LARGE_BYTES)
        if entry.outer > 1 and entry.inner == 1 and large.any():
            rate = np.median(entry.size_bytes[large] / entry.measured_s[large]) * moved_fraction(entry.op, 2)
            rates.setdefault(f"{entry.source}/{entry.cluster.gpu.name}", []).append(float(rate))
        if entry.library == "NCCL via torch" and entry.op == "all_reduce" and entry.outer == 1:
            small.setdefault(f"{entry.library}/{entry.op}", []).extend(
                entry.measured_s[fitted & (entry.size_bytes < SMALL_BYTES)]
            )
    networks = {name: float(np.mean(found)) for name, found in rates.items()}
    return {"networks": networks, "least_s": {name: float(np.median(found)) for name, found in small.items()}}


# ---------------------------------------------------------------- score


def score(sets: Sequence[CollectiveSet], constants: Mapping[str, Any], title: str, *, held_back: bool = True) -> Any:
    """Prints the errors of the rows that were not fitted."""
    found = []
    for entry in sets:
        error = np.log(predicted_s(entry, constants) / entry.measured_s)
        found.append(error[~is_fitted(entry.size_bytes)] if held_back else error)
    error = np.concatenate(found)
    size = np.abs(np.expm1(error))
    figures = f"median {np.median(size):6.1%}  90 % {np.quantile(size, 0.9):6.1%}  bias {np.median(error):+.1%}"
    print(f"{title:48} {len(error):6} rows  {figures}")
    return error


def rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: rounded(part) for key, part in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def main(arguments: Sequence[str]) -> None:
    table = read_table(Path(arguments[0]))
    sets, reasons = collective_sets(table)
    print(dict(reasons))
    if "--sources" in arguments:  # run this first and separately, because the fit reads them
        write_whole(SOURCES, (json.dumps(rounded(of_sources(sets)), indent=1) + "\n").encode())
        return
    constants = fit(sets)
    score(sets, constants, "all, sizes held back")
    known = score([entry for entry in sets if entry.outer == 1 and is_trusted(entry)], constants, "inside a node, as we trust it")
    for source in sorted({entry.source for entry in sets}):
        score([entry for entry in sets if entry.source == source], constants, f"  {source}")
    for key in sorted({(key_of(entry), entry.op) for entry in sets}):
        score([entry for entry in sets if (key_of(entry), entry.op) == key], constants, "    " + " ".join(key))
    unseen = [score([entry for entry in sets if entry.outer > 1], constants, "between nodes")]
    for kind in sorted({key_of(entry) for entry in sets if is_trusted(entry)} - {"network", "pairs"}):
        own = [entry for entry in sets if key_of(entry) == kind and is_trusted(entry)]
        unseen.append(score(own, fit(sets, without=kind), f"  without {kind}", held_back=False))
    constants["ranges"] = {"known": _range(known), "unknown": _range(np.concatenate(unseen))}
    print(constants["ranges"])
    fitted = sum(int((weights(entry) > 0).sum()) for entry in sets if is_trusted(entry))
    said = "every other octave of sizes in collectives.parquet (aiconfigurator, vTrain, vidur); L40S on 2 cards only"
    text = json.dumps({"fitted_on": said, "fitted_rows": fitted, **rounded(constants)}, indent=1)
    if "--dry-run" not in arguments:
        write_whole(DATA, (text + "\n").encode())


def _range(error: Any) -> dict[str, float]:
    """The range around a prediction that contains 80% of measurements."""
    low, high = np.exp(-np.quantile(error, [0.9, 0.1]))
    return {"low": min(0.95, float(low)), "high": max(1.05, float(high))}


if __name__ == "__main__":
    main(sys.argv[1:])
