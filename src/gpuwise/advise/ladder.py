"""Combines single remedies into a ladder that makes a step fit, and finds GPUs with more memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpuwise.advise.offers import Offered
from gpuwise.advise.proposals import Proposal, Remedy
from gpuwise.advise.remedies import REMEDIES
from gpuwise.advise.trial import Trial
from gpuwise.advise.types import EFFECTS, Rung
from gpuwise.prediction.choices import Choices, DoesNotApply
from gpuwise.prediction.ways import room_of

__all__ = ["Advice", "advise", "bigger", "changes", "sparing"]

_WORTH = 0.99  # of the peak: a rung that saves less is none
_FREE = 1.001  # a rung that costs no more stays in the ladder even where others would do
_DEARER = 1.1  # the time that leaving a change of results out may cost
_LARGE = 1e9  # parameters: of smaller models people train all
# What people try in turn to train a large language model: to keep the result, then adapters, then those on packed weights.
_USUAL = (
    ("checkpoint",),
    ("lora",),
    ("lora", "checkpoint"),
    ("qlora",),
    ("qlora", "checkpoint"),
    ("qlora", "checkpoint", "accumulate"),
    ("qlora", "checkpoint", "shorter-sequence"),
    ("checkpoint", "shorter-sequence"),
)
# The same with several GPUs, which then share the weights.
_USUAL_ON_SEVERAL = (
    ("zero-3",),
    ("zero-3", "checkpoint"),
    ("zero-3", "checkpoint", "accumulate"),
    ("8-bit-optimizer", "zero-3", "checkpoint"),
    ("8-bit-optimizer", "bf16", "zero-3", "checkpoint"),
    ("zero-3", "offload-weights", "checkpoint"),
    ("lora", "zero-3", "checkpoint"),
    ("qlora", "zero-3", "checkpoint"),
    ("qlora", "zero-3", "offload-weights", "checkpoint"),
    ("zero-3", "offload-weights", "checkpoint", "shorter-sequence"),
    ("qlora", "zero-3", "offload-weights", "checkpoint", "shorter-sequence"),
)
_ADJUSTING = ("shorter-sequence", "checkpoint", "accumulate")
_ON_TOP = {"offload-weights": "zero-3"}  # remedies that apply only after another
_ADDING_TIME = ("checkpoint", "accumulate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Every remedy alone, cheapest first; those that do not apply, with the reason; and a ladder that fits."""

    remedies: tuple[Rung, ...] = ()
    not_applicable: tuple[tuple[str, str], ...] = ()
    ladder: tuple[Rung, ...] = ()
    final: Choices


def advise(trial: Trial, larger: Sequence[Offered] = ()) -> Advice:
    """Try every remedy alone, then combine them. `larger` are GPUs that could be used instead."""
    alone, refused = _each(trial, REMEDIES)
    instead = bigger(trial, larger)
    if not instead:
        refused.append(
            ("bigger-gpu", "the model fits on this GPU" if trial.fits(trial.now) else "no GPU in the catalogue has enough memory")
        )
    found = [*(rung for _, rung in alone), *instead]
    climbed = [] if trial.fits(trial.now) else _climb(trial, alone)
    return Advice(
        remedies=tuple(sorted(found, key=lambda rung: rung.cost)),
        not_applicable=tuple(refused),
        ladder=tuple(_rung(trial, remedy, proposal) for remedy, proposal in climbed),
        final=climbed[-1][1].choices if climbed else trial.now,
    )


def sparing(trial: Trial, effects: Sequence[str]) -> tuple[tuple[Rung, ...], Choices]:
    """Return only the ladder, with remedies that require no more than these `EFFECTS`; no rungs if it fits, or never does."""
    alone, _ = _each(trial, [remedy for remedy in REMEDIES if remedy.effect in effects])
    alone = [(remedy, rung) for remedy, rung in alone if rung.effect in effects]
    climbed = [] if trial.fits(trial.now) else _climb(trial, alone)
    rungs = tuple(_rung(trial, remedy, proposal) for remedy, proposal in climbed)
    return rungs, climbed[-1][1].choices if climbed else trial.now


def changes(trial: Trial) -> tuple[Rung, ...]:
    """Return only the ladder, on the GPUs that there are: what people usually do if that is enough, because it takes less time to
    find. On several GPUs, any other remedy is tried too; on one, that takes ten seconds for a large model, as in `fit`.
    """
    found = _as_people_do(trial, {remedy.name: remedy for remedy in REMEDIES})
    rungs = tuple(_rung(trial, remedy, proposal) for remedy, proposal in found)
    rungs = rungs or (advise(trial).ladder if trial.now.gpu_count > 1 else ())
    return () if any(rung.gpu_count > trial.now.gpu_count for rung in rungs) else rungs


def _each(trial: Trial, remedies: Sequence[Remedy]) -> tuple[list[tuple[Remedy, Rung]], list[tuple[str, str]]]:
    """Return every remedy alone, and those that do not apply, with the reason."""
    alone: list[tuple[Remedy, Rung]] = []
    refused: list[tuple[str, str]] = []
    for remedy in remedies:
        try:
            alone.append((remedy, _rung(trial, remedy, remedy.propose(trial, trial.now))))
        except DoesNotApply as reason:
            refused.append((remedy.name, str(reason)))
    return alone, refused


def _rung(trial: Trial, remedy: Remedy, proposal: Proposal) -> Rung:
    return trial.rung(remedy.name, proposal.title, proposal.effect or _effect(remedy, trial), proposal.how, proposal.choices)


def _effect(remedy: Remedy, trial: Trial) -> str:
    """Spreading a job over GPUs that are already there needs no other hardware."""
    return "same" if remedy.effect == "hardware" and trial.now.gpu_count > 1 else remedy.effect


# ---------------------------------------------------------------- the ladder


def _climb(trial: Trial, alone: Sequence[tuple[Remedy, Rung]]) -> list[tuple[Remedy, Proposal]]:
    """Take remedies by what they require from the user, then by time per byte saved, until the step fits; leave out
    unnecessary ones.
    """
    peak = trial.memory(trial.now).total_bytes
    missing = peak - trial.room.usable_bytes

    def price(rung: Rung) -> float:
        saved = min(missing, peak - rung.memory.total_bytes)
        return (rung.cost - 1.0) / saved

    known = {remedy.name: remedy for remedy, _ in alone}
    known |= {one.name: one for one in REMEDIES if _ON_TOP.get(one.name) in known}
    if found := _as_people_do(trial, known):
        return found
    useful = [(remedy, rung) for remedy, rung in alone if rung.memory.total_bytes < _WORTH * peak]
    ordered = sorted(useful, key=lambda pair: (_tier(pair[1], trial), price(pair[1])))
    here = [(remedy, rung) for remedy, rung in ordered if rung.effect != "hardware"]
    for tried in (here, ordered) if len(here) < len(ordered) else (ordered,):  # more GPUs only where nothing else helps
        alone_s = [(remedy, rung.step_s) for remedy, rung in tried]
        for careful in (replace(trial, careful=True), trial):  # with room to spare if it can be had
            climber = _Climber(careful, alone_s)
            if found := climber.climbed():
                return found
    return []


def _as_people_do(trial: Trial, known: Mapping[str, Remedy]) -> list[tuple[Remedy, Proposal]]:
    """Return the usual way to make a large language model fit for training: the first of these that fits with room to spare.
    On one GPU, the first that fits at all is better than more GPUs.
    """
    plain = trial.ways.plain(trial.now)
    if plain.mode != "train" or plain.seq is None or plain.parameters < _LARGE:
        return []
    alone = trial.now.gpu_count == 1
    for tried in (replace(trial, careful=True), trial) if alone else (replace(trial, careful=True),):
        climber = _Climber(tried, ())
        for names in _USUAL if alone else _USUAL_ON_SEVERAL:
            if all(name in known for name in names) and (found := climber.applied([known[name] for name in names])):
                return found
    return []


def _tier(rung: Rung, trial: Trial) -> int:
    """Remedies that keep the result come first, preceded by using all available GPUs for a model that is too large for one."""
    if rung.name.startswith("split") and trial.now.gpu_count > 1:
        return -1
    return max(1, EFFECTS.index(rung.effect))


class _Climber:
    """Tries remedies one on top of another. Each proposal is computed once for the choices it builds on."""

    def __init__(self, trial: Trial, ordered: Sequence[tuple[Remedy, float]]) -> None:
        self._trial, self._ordered = trial, ordered
        self._known: dict[tuple[str, Choices], Proposal | None] = {}

    def climbed(self) -> list[tuple[Remedy, Proposal]]:
        """Return the rungs, or nothing if no combination fits."""
        taken = self._taken()
        return (self._apply(self._prune(taken)) or []) if taken else []

    def applied(self, remedies: Sequence[Remedy]) -> list[tuple[Remedy, Proposal]]:
        """Return the rungs for these remedies in order, or nothing if they do not fit."""
        return self._apply(remedies) or []

    def _propose(self, remedy: Remedy, choices: Choices) -> Proposal | None:
        key = (remedy.name, choices)
        if key not in self._known:
            try:
                self._known[key] = remedy.propose(self._trial, choices)
            except DoesNotApply:
                self._known[key] = None
        return self._known[key]

    def _taken(self) -> list[Remedy]:
        """Take remedies in order until the step fits; none if it never does."""
        trial, choices, taken = self._trial, self._trial.now, list[Remedy]()
        for remedy, _ in self._ordered:
            proposal = self._propose(remedy, choices)
            if proposal is None or self._saves_little(choices, proposal.choices):
                continue
            choices = proposal.choices
            taken.append(remedy)
            if trial.fits(choices):
                return taken
        return []

    def _saves_little(self, before: Choices, after: Choices) -> bool:
        return self._trial.memory(after).total_bytes >= _WORTH * self._trial.memory(before).total_bytes

    def _apply(self, taken: Sequence[Remedy]) -> list[tuple[Remedy, Proposal]] | None:
        """Apply these in order; None if one does not apply or they do not fit."""
        choices, found = self._trial.now, list[tuple[Remedy, Proposal]]()
        for remedy in taken:
            proposal = self._propose(remedy, choices)
            if proposal is None:
                return None
            found.append((remedy, proposal))
            choices = proposal.choices
        return found if self._trial.fits(choices) else None

    def _prune(self, taken: list[Remedy]) -> list[Remedy]:
        """Remove remedies that the others make unnecessary: first those that change results, even at a small cost in time;
        then expensive ones.
        """
        alone_s = {remedy.name: seconds for remedy, seconds in self._ordered}
        kept = self._adjusting_last(taken)
        for remedy in sorted(kept, key=lambda one: (-EFFECTS.index(_effect(one, self._trial)), -alone_s[one.name])):
            others = [one for one in kept if one is not remedy]
            allowed = _FREE if _effect(remedy, self._trial) == "same" else _DEARER
            limit = allowed * self._time_of(kept)
            if others and self._may_take(others, kept, limit) and self._time_of(others) <= limit:
                kept = others
        return kept

    def _may_take(self, others: Sequence[Remedy], kept: Sequence[Remedy], limit: float) -> bool:
        """Return whether a step with the others may stay within this time, by a bound that needs no search: the time without
        remedies that only add to it.
        """
        least = self._without_added_time(others)
        return least == self._without_added_time(kept) or self._trial.step_s(least) <= limit

    def _without_added_time(self, taken: Sequence[Remedy]) -> Choices:
        choices = self._trial.now
        for remedy in taken:
            proposal = None if remedy.name in _ADDING_TIME else self._propose(remedy, choices)
            choices = proposal.choices if proposal else choices
        return choices

    def _adjusting_last(self, taken: list[Remedy]) -> list[Remedy]:
        """Put self-adjusting remedies last, so that they do only what is still needed, or nothing."""
        kept, choices = list[Remedy](), self._trial.now
        for remedy in sorted(taken, key=lambda one: _ADJUSTING.index(one.name) + 1 if one.name in _ADJUSTING else 0):
            if remedy.name in _ADJUSTING and self._trial.fits(choices):
                continue
            proposal = self._propose(remedy, choices)
            if proposal is None:
                return taken
            kept.append(remedy)
            choices = proposal.choices
        return kept if self._trial.fits(choices) else taken

    def _time_of(self, taken: Sequence[Remedy]) -> float:
        """Return the seconds of a step with these; infinite if they do not fit."""
        found = self._apply(taken)
        return self._trial.step_s(found[-1][1].choices) if found else float("inf")


# ---------------------------------------------------------------- another GPU


# How a GPU can be had: what that costs, and how it is told.
_HAD: tuple[tuple[Callable[[Offered], float | None], str], ...] = (
    (lambda one: one.price.usd if one.price else None, "${:,.0f}"),
    (lambda one: one.rent.usd_per_gpu_hour if one.rent else None, "rented at ${:.2f}/h"),
)


def bigger(trial: Trial, offers: Sequence[Offered]) -> tuple[Rung, ...]:
    """Return the cheapest of these GPUs to buy that holds the step as it is, and the cheapest to rent; if neither is
    available, the one with the least memory that does.
    """
    if trial.fits(trial.now):
        return ()
    tensors = trial.memory(trial.now).allocated_bytes
    able = [one for one in offers if not (room := room_of(one.gpu)).shared and room.usable_bytes > tensors]
    found: dict[str, tuple[Trial, list[str]]] = {}
    for usd, told in _HAD:
        offered = [one for one in able if usd(one) is not None]
        if held := _first(trial, sorted(offered, key=lambda one: usd(one) or 0.0)):
            one, there = held
            found.setdefault(one.gpu.name, (there, []))[1].append(told.format(usd(one)))
    if not found and (held := _first(trial, sorted(able, key=_least))):
        return (_instead(trial, held[1], ""),)
    return tuple(_instead(trial, there, ", or ".join(terms)) for there, terms in found.values())


def _least(one: Offered) -> tuple[float, int]:
    """Smallest memory first, then newest."""
    return one.gpu.memory_bytes, -(one.gpu.launched_on.toordinal() if one.gpu.launched_on else 0)


def _first(trial: Trial, offers: Sequence[Offered]) -> tuple[Offered, Trial] | None:
    """Return the first that holds the step as it is, and the trial there."""
    for one in offers:
        there = replace(trial, gpu=one.gpu, room=room_of(one.gpu), _memories={}, _now_s=0.0)
        if there.fits(trial.now):
            return one, there
    return None


def _instead(trial: Trial, there: Trial, terms: str) -> Rung:
    why = terms or "the smallest GPU that the model fits on; no price is known"
    title = f"{there.gpu.name} instead{f' ({terms})' if terms else ''}"
    rung = there.rung("bigger-gpu", title, "hardware", why, trial.now)
    return replace(rung, cost=rung.step_s / trial.now_s)
