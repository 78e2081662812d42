"""The error budget: what predictions may miss published steps by, on GPUs and families that their fit has not seen.

They are of the shipped table as it is answered without timm: the zoo's models, norms in fp32. The figures are there to shrink.
What has grown: ratios from 0.105 to 0.13, when power by process came in (0.10 since decision 21); with decision 21 the median
from 0.107 to 0.113 and nine in ten from 0.285 to 0.288, given for better ratios between GPUs; the distance to simple rules from
1.15 to 1.05. With decision 22 the order of GPUs went from 0.95 to 0.947, while all other figures shrank. With decision 26 the
table grew by 251 rows on 14 more GPUs, old laptops among them. On those, a fit that had never seen them was off by 0.168 in the
median and 0.416 at the 90th percentile, and its ranges held 59 %; now 0.165, 0.410 and 77 %. The RX 6800 got worse (0.14 to
0.40): its source has two other cards now, so its own rows no longer set the level of its software. Without it all rows are off by
0.113 and 0.309. With decision 27 the median went from 0.123 to 0.115, nine in ten from 0.359 to 0.318 and the order of GPUs from
0.896 to 0.931. Ratios grew from 0.114 to 0.115, and ranges, which are tested so that every source on every GPU counts once,
contain 0.88 of these rows instead of 0.86. With decision 31 the median went from 0.115 to 0.107, the order of GPUs from 0.931 to
0.935 and ratios from 0.115 to 0.110, while nine in ten grew from 0.318 to 0.320. Ranges contain 0.90 of these rows: they were
drawn from them too, and rows of groups that they were not drawn from are contained less often than before (0.85, before 0.87).
With decision 36 the median went from 0.107 to 0.100 and nine in ten from 0.320 to 0.307, while the order of GPUs fell from 0.935
to 0.930 and ratios grew from 0.110 to 0.113. With decision 38, families that were left out went from 0.108 and 0.284 to 0.098 and
0.276, while nine in ten grew from 0.308 to 0.309, ratios from 0.113 to 0.114, and ranges contain 0.907 of these rows, not 0.905.
"""

from __future__ import annotations

import pytest

import fit_changes
from gpuwise.evidence.ranges import change_range
from gpuwise.questions.validate.answer import ValidateAnswer, validate

MEDIAN, P90, FAMILY_MEDIAN, FAMILY_P90 = 0.101, 0.309, 0.098, 0.276
TAU, RATIO = 0.930, 0.114
COVERAGE = (0.75, 0.907)
BETTER_THAN_RULES = 1.05  # on this small table; twice and more on all rows, see docs/accuracy.md


@pytest.fixture(scope="module")
def answer() -> ValidateAnswer:
    return validate()


def test_steps_on_unseen_gpus_stay_within_budget(answer: ValidateAnswer) -> None:
    found = answer.overall
    assert found.median_ape is not None
    assert found.p90_ape is not None
    assert found.median_ape <= MEDIAN
    assert found.p90_ape <= P90


def test_steps_of_unseen_families_stay_within_budget(answer: ValidateAnswer) -> None:
    found = answer.unseen_family
    assert found is not None
    assert found.median_ape is not None
    assert found.p90_ape is not None
    assert found.median_ape <= FAMILY_MEDIAN
    assert found.p90_ape <= FAMILY_P90


def test_gpus_are_ranked_in_the_measured_order(answer: ValidateAnswer) -> None:
    assert answer.overall.kendall_tau is not None
    assert answer.overall.ratio_median_ape is not None
    assert answer.overall.kendall_tau >= TAU
    assert answer.overall.ratio_median_ape <= RATIO


def test_ranges_hold_eight_of_ten(answer: ValidateAnswer) -> None:
    assert answer.overall.coverage_fraction is not None
    assert COVERAGE[0] <= answer.overall.coverage_fraction <= COVERAGE[1]


@pytest.mark.parametrize("setting", list(fit_changes.CHANGES))
def test_ranges_of_changed_settings_are_those_of_the_table(answer: ValidateAnswer, setting: str) -> None:
    residuals = {residual.row: residual for residual in answer.residuals}
    found = fit_changes.width(list(fit_changes.pairs(fit_changes.table(), residuals, setting)))
    shipped = change_range(setting)
    assert shipped is not None
    assert (shipped.low, shipped.high, shipped.rows) == pytest.approx((found["low"], found["high"], found["rows"]), rel=0.02)
    assert shipped.low < 1.0 < shipped.high


def test_nearly_every_row_is_predicted(answer: ValidateAnswer) -> None:
    assert len(answer.residuals) >= 0.95 * answer.rows
    assert len(answer.residuals) + sum(count for _, count in answer.skipped) == answer.rows


def test_simple_rules_are_beaten(answer: ValidateAnswer) -> None:
    assert set(answer.baselines) == {"flops_ratio", "bandwidth_ratio", "sqrt_of_both", "roofline"}
    ratio, median = answer.overall.ratio_median_ape, answer.overall.median_ape
    assert ratio is not None
    assert median is not None
    assert (
        min(answer.baselines[name]["median_ape"] for name in answer.baselines if name != "roofline") > BETTER_THAN_RULES * ratio
    )
    assert answer.baselines["roofline"]["median_ape"] > 2 * median
