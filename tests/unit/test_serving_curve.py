"""A language model with more and more users: throughput, waits, a service level, and what would allow more."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.core.errors import GpuwiseError
from gpuwise.prediction.generation import curve, generate, unread_fraction, verified_s
from gpuwise.questions.common.language.ask import LanguageQuery, asked_for_text
from gpuwise.questions.predict.options import PredictOptions
from gpuwise.questions.predict.serving import ServingAnswer
from gpuwise.surfaces.cli.app import app


def asked(**more: Any) -> LanguageQuery:
    query = asked_for_text(PredictOptions("llama-3-8b", gpu="RTX 4090", **{"engine": "vllm", **more}))
    assert query is not None
    return query


def served(**more: Any) -> ServingAnswer:
    answer = gpuwise.predict("llama-3-8b", **{"gpu": "RTX 4090", "engine": "vllm", **more})
    assert isinstance(answer, ServingAnswer)
    return answer


def test_each_point_is_what_predict_says_of_it() -> None:
    answer = served(users="1,7,40")
    for point in answer.points:
        alone = gpuwise.predict("llama-3-8b", gpu="RTX 4090", engine="vllm", users=point.generation.users).results[0]
        for name in ("step_s", "step_low_s", "step_high_s", "samples_per_s", "fits", "bound"):
            assert getattr(alone, name) == getattr(point, name), name
        assert alone.memory == point.memory
        assert alone.generation.to_dict() == point.generation.to_dict()
        assert [(op.op, op.seconds, op.flops) for op in alone.by_op] == [(op.op, op.seconds, op.flops) for op in point.by_op]


def test_layers_on_the_cpu_are_those_of_predict() -> None:
    many = gpuwise.predict("llama-3-70b", gpu="RTX 4090", weights="q4_k_m", users="1,8").results
    alone = gpuwise.predict("llama-3-70b", gpu="RTX 4090", weights="q4_k_m", users=8).results[0]
    assert many[1].generation == alone.generation
    assert many[1].generation.offloaded_fraction > many[0].generation.offloaded_fraction > 0


def test_more_users_get_more_in_all_and_each_waits_longer() -> None:
    told = [point.generation for point in served(users="1..64").points]
    assert [one.users for one in told] == [1, 2, 4, 8, 16, 32, 64]
    for few, many in pairwise(told):
        assert many.tokens_per_s > few.tokens_per_s
        assert many.time_per_token_s > few.time_per_token_s
        assert many.time_to_first_token_s >= few.time_to_first_token_s


def test_64_points_take_less_than_a_second() -> None:
    served(users="1,2")
    begun = time.process_time()
    answer = served(users=",".join(map(str, range(1, 65))), sla="50ms")
    assert time.process_time() - begun < 1.0
    assert len(answer.points) == 64
    assert len(str(answer).splitlines()) <= 25


def test_the_largest_number_of_users_is_allowed_and_the_next_is_not() -> None:
    (found,) = served(sla="30ms").within
    assert found.limit == "token"
    inside, outside = curve(asked().serving, asked().gpus, [found.users, found.users + 1])
    assert inside.token_s[0] <= 0.030 < outside.token_s[0]


def test_memory_stops_users_that_a_service_level_would_allow() -> None:
    (found,) = served(sla="10s").within
    told = gpuwise.predict("llama-3-8b", gpu="RTX 4090", engine="vllm", users=1).results[0].generation
    assert (found.limit, found.users) == ("memory", told.users_fit)


def test_a_wait_for_the_first_token_limits_engines_that_read_all_prompts_at_once() -> None:
    answer = served(engine="transformers", first_token="2s")  # noqa: S106  (a wait, no password)
    (found,) = answer.within
    assert found.limit == "first_token"
    assert found.time_to_first_token_s is not None
    assert found.time_to_first_token_s <= 2.0
    assert "limited by the time to the first token" in " ".join(str(answer).split())


def test_several_gpus_are_named_as_one_set() -> None:
    assert "on 2x RTX 4090" in str(served(users="1,2", gpus=2)).splitlines()[0]


def test_a_service_level_that_nobody_reaches_is_an_answer() -> None:
    answer = served(sla="1ms")
    assert [found.users for found in answer.within] == [0]
    assert "cannot serve even 1 user" in str(answer)


def test_a_cached_beginning_saves_time_but_never_all_of_it() -> None:
    serving, gpus = asked(prompt=4096).serving, asked().gpus
    left = [float(unread_fraction(serving, gpus, share)[0]) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert left[0] == 1.0
    assert left == sorted(left, reverse=True)
    assert left[2] > 0.5  # the rest looks back on the beginning
    assert left[-1] > 0


def test_checking_drafted_tokens_costs_more_than_one_step_and_less_than_one_for_each() -> None:
    serving, gpus = asked().serving, asked().gpus
    plain = generate(replace(serving, users=8), gpus).decode.step_s[0, 0]
    checked = verified_s(serving, gpus, [8], 4)[0, 0]
    assert plain < checked < 5 * plain
    assert verified_s(serving, gpus, [8], 0)[0, 0] == pytest.approx(plain)


def test_what_ifs_are_told_where_they_gain() -> None:
    answer = served(users="1..32", prefix_cached=0.8)
    found = {one.change: one for one in answer.what_ifs}
    assert set(found) == {"prefix cache", "speculative decoding", "fp8 cache"}
    assert found["prefix cache"].basis == "given"
    assert found["prefix cache"].gain > 1.05
    assert found["fp8 cache"].users_fit > answer.points[0].generation.users_fit
    assert "assumes 4 drafted tokens, of which 70% are accepted" in " ".join(str(answer).split())
    assert not any(one.change == "fp8 cache" for one in served(users="1..32", kv="fp8").what_ifs)


def test_smaller_chunks_shorten_the_pauses_and_gain_nothing_else() -> None:
    found = {one.change: one for one in served(users="1..16", prompt=2048).what_ifs}
    assert 0.7 < found["chunked prefill"].gain <= 1.0
    assert "at a time instead of" in found["chunked prefill"].said
    assert "chunked prefill" not in {one.change for one in served(users="1..16", prompt=512).what_ifs}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--users", "8..2"], "ends before it begins"),
        (["--users", "1,x"], "invalid number of users 'x'"),
        (["--users", "0"], "invalid number of users 0"),
        (["--users", ",".join(map(str, range(1, 66)))], "too many for `--users`"),
        (["--sla", "50"], "has no unit"),
        (["--sla", "-5ms"], "invalid duration: --sla"),
        (["--prefix-cached", "1.5"], "invalid --prefix-cached"),
        (["--users", "4", "--prompt", "0"], "invalid --prompt 0"),
        (["--users", "1..8", "--mode", "train"], "cannot be combined"),
    ],
)
def test_what_cannot_be_served_is_refused(more: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["predict", "llama-3-8b", "--gpu", "RTX 4090", *more])
    assert isinstance(result.exception, GpuwiseError) or result.exit_code == 2
    assert said in f"{result.output}{result.exception}"


def test_the_figure_has_a_mark_for_each_point(tmp_path: Path) -> None:
    target = tmp_path / "curve.svg"
    words = ["predict", "llama-3-8b", "--gpu", "RTX 4090", "--users", "1..16", "--sla", "50ms", "--figure", str(target)]
    assert CliRunner().invoke(app, words).exit_code == 0
    drawn = target.read_text()
    assert "time per token" in drawn
    assert drawn.count(" users: ") >= 5
