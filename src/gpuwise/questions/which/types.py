"""The answer of `which`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar

from gpuwise.advise.candidates import Candidate, TaskRun
from gpuwise.advise.choosing import pareto, shortfall
from gpuwise.advise.jobs import taken
from gpuwise.box.types import CheckLine
from gpuwise.core.provenance import Assumption, as_dicts
from gpuwise.questions.common.options import Shown
from gpuwise.questions.which.ask import WhichQuery
from gpuwise.questions.which.language_paces import LanguagePace
from gpuwise.questions.which.remedied import Remedied

__all__ = ["Parts", "WhichAnswer"]

Parts = tuple[tuple[str, str], ...]  # of a verdict: what each part is about, and its text; together they are the verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class WhichAnswer(Shown):
    """The options shown, best first; `every` is all that were considered, for charts; `ways` says how each job is run, the same
    on all; `remedied` are cards that hold the jobs as asked with remedies, each with a sentence."""

    TEXT: ClassVar[str] = "questions.which.text.render"
    FIGURE: ClassVar[str] = "questions.which.figure.choices_figure"

    query: WhichQuery
    said: Parts
    verdict: str
    best: Candidate | None
    options: tuple[Candidate, ...]
    build: dict[str, tuple[CheckLine, ...]]
    reasons: dict[str, tuple[str, ...]]
    rejected: tuple[tuple[str, str], ...]
    changes_if: tuple[str, ...]
    remedied: tuple[tuple[Remedied, str], ...]
    ways: tuple[str, ...]
    every: tuple[Candidate, ...]
    assumptions: tuple[Assumption, ...]
    data_date: date

    @property
    def chosen(self) -> Candidate | None:
        """The option that the verdict names: the best one, or the best value where no purpose was given."""
        return min(self.options, key=lambda option: option.usd_per_run or 0.0, default=None) if self.query.general else self.best

    def to_dict(self) -> dict[str, Any]:
        """The answer with the keys of the JSON contract."""
        return {
            "verdict": self.verdict,
            "said": [{"about": about, "text": _sentence(text)} for about, text in self.said if text.strip()],
            "general": self.query.general,
            "question": self.query.title,
            "options": [self._option(option) for option in self.options],
            "rejected": [{"gpu": name, "reason": reason} for name, reason in self.rejected],
            "changes_if": list(self.changes_if),
            "remedied": [_remedied_dict(one, text) for one, text in self.remedied],
            "looked_at": self._looked_at(),
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }

    def _looked_at(self) -> list[dict[str, Any]]:
        """Everything on the market in brief, for charts. `short_of` is the limit that an option exceeds; on the front are those
        within the limits that no other beats in both time and cost."""
        limits = self.query.limits
        priced = [option for option in self.every if option.total_usd is not None and not shortfall(option, limits)]
        front = {option.key for option in pareto(priced)}
        return [
            _run_dict(option.run)
            | {
                "source": option.kind,
                "added_gpus": option.added,
                "beside": _beside(option.run),
                "upfront_usd": option.upfront_usd,
                "total_usd": option.total_usd,
                "usd_per_run": option.usd_per_run,
                "short_of": shortfall(option, limits),
                "front": option.key in front,
            }
            for option in self.every
        ]

    def _option(self, option: Candidate) -> dict[str, Any]:
        run = option.run
        main = run.paces[0]
        return {
            "gpu": option.gpu.name,
            "gpu_count": option.gpu_count,
            "added_gpus": option.added,
            "beside": _beside(option.run),
            "source": option.kind,
            "recommended": option is self.chosen,
            "fits": run.fits,
            "headroom_bytes": main.usable_bytes - run.needed_bytes,
            "step_s": main.step_s,
            "batch": main.batch,
            "precision": main.choices.precision,
            "bound": main.bound,
            "samples_per_s": run.samples_per_s,
            "run_s": run.seconds,
            "run_low_s": run.seconds * run.low,
            "run_high_s": run.seconds * run.high,
            "jobs": [
                {
                    "model": job.model,
                    "way": taken(way, pace),
                    "step_s": pace.step_s,
                    "batch": pace.batch,
                    "run_s": took,
                    "fits": pace.fits,
                }
                for job, way, pace, took in zip(self.query.jobs, self.ways, run.paces, run.job_s, strict=True)
            ],
            "upfront_usd": option.upfront_usd,
            "total_usd": option.total_usd,
            "usd_per_run": option.usd_per_run,
            "usd_per_million_samples": option.usd_per_million_samples,
            "machine_usd": option.machine_usd,
            "running_usd": option.running_usd,
            "resale_usd": option.resale_usd,
            "usd_per_kwh": option.usd_per_kwh,
            "energy_kwh": option.energy_kwh,
            "kg_co2e": option.kg_co2e,
            "price": _price_dict(option),
            "build": [
                {
                    "check": line.check,
                    "verdict": line.verdict,
                    "text": line.text,
                    "remedy": line.remedy,
                    "power_limit_watts": line.power_limit_watts,
                }
                for line in self.build.get(option.key, ())
            ],
            "reasons": list(self.reasons.get(option.key, ())),
            **_text_dict(option),
        }


def _sentence(part: str) -> str:
    """A part of the verdict as a sentence of its own."""
    text = part.strip().removesuffix(", and").removesuffix(".")
    return f"{text[0].upper()}{text[1:]}."


def _beside(run: TaskRun) -> str:
    """The user's GPUs of another kind among those of a run, as `2x RTX 3060`; empty if there are none."""
    return "" if run.beside is None else f"{f'{run.beside[1]}x ' if run.beside[1] > 1 else ''}{run.beside[0].name}"


def _text_dict(option: Candidate) -> dict[str, Any]:
    """What is said of text beside the rest."""
    main = option.run.paces[0]
    if not isinstance(main, LanguagePace):
        return {}
    return {
        "tokens_per_s": option.run.samples_per_s,
        "tokens_per_s_low": option.run.samples_per_s / option.run.high,
        "tokens_per_s_high": option.run.samples_per_s / option.run.low,
        "usd_per_million_tokens": option.usd_per_million_samples,
        "engine": main.engine,
        "weights": main.weights,
        "split": main.split,
        "offloaded_fraction": main.offloaded,
        "groups": main.groups,
        "memory_bytes": main.memory_bytes,
        "usable_memory_bytes": main.usable_bytes,
    }


def _run_dict(run: TaskRun) -> dict[str, Any]:
    return {
        "gpu": run.gpu.name,
        "gpu_count": run.gpu_count,
        "vendor": run.gpu.vendor,
        "segment": run.gpu.segment,
        "memory_bytes": run.gpu.memory_bytes,
        "needed_bytes": run.needed_bytes,
        "fits": run.fits,
        "run_s": run.seconds,
        "samples_per_s": run.samples_per_s,
    }


def _remedied_dict(one: Remedied, text: str) -> dict[str, Any]:
    option = one.option
    return _run_dict(option.run) | {
        "source": option.kind,
        "upfront_usd": option.upfront_usd,
        "total_usd": option.total_usd,
        "usd_per_run": option.usd_per_run,
        "remedies": [
            {"model": model, "name": rung.name, "title": rung.title, "how": rung.how, "step_s": rung.step_s, "cost": rung.cost}
            for model, rungs in one.rungs.items()
            for rung in rungs
        ],
        "text": text,
    }


def _price_dict(option: Candidate) -> dict[str, Any] | None:
    if option.price is not None:
        price = option.price
        return {
            "usd": price.usd,
            "low_usd": price.low_usd,
            "high_usd": price.high_usd,
            "kind": price.kind,
            "estimated": price.estimated,
            "dated": price.dated.isoformat(),
            "source": price.source,
            "note": price.note,
        }
    if option.rent is not None:
        rent = option.rent
        return {
            "usd_per_hour": rent.usd_per_gpu_hour,
            "low_usd_per_hour": rent.low_usd_per_gpu_hour,
            "high_usd_per_hour": rent.high_usd_per_gpu_hour,
            "clouds": list(rent.clouds),
            "dated": rent.dated.isoformat(),
        }
    return None
