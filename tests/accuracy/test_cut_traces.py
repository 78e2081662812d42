"""Public traces truncated at many places: the answer says so first and agrees with the whole file on complete steps, or the
file is refused.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import gpuwise
from gpuwise.core.errors import BadFile
from gpuwise.questions.common.diagnosis import WhyAnswer

TRACES = Path(__file__).parents[3] / "shared" / "traces"
CUTS = (0.1, 0.5, 0.9, 0.99, 2000)
CASES = {  # how many of the ten cuts, five of the packed and five of the plain file, leave two whole steps
    "kineto_resnet50_nw0_v100.json.gz": 4,
    "param_resnet_rtx2080ti.json.gz": 6,
    "hta_allreduce_v100_rank1of2.json.gz": 4,
    "tracelens_qwen0.5b_h100.json.gz": 0,
    "jax_attention_mi300x.xplane.pb": 2,
    "nsys_fastvideo_h100_2gpu.sqlite": 0,
}
MOST_KEPT = 0.9  # from here on the first cause and its share are those of the whole file

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not TRACES.exists(), reason="the shared traces are not here")]


def asked(path: Path) -> WhyAnswer | BadFile:
    try:
        return gpuwise.why([str(path)])
    except BadFile as fault:
        return fault


@pytest.mark.parametrize("name", CASES)
def test_a_cut_trace_is_answered_from_whole_steps_or_refused_as_cut(name: str, tmp_path: Path) -> None:
    raw = (TRACES / name).read_bytes()
    whole = gpuwise.why([str(TRACES / name)])
    answered = 0
    for form in [raw, gzip.decompress(raw)] if name.endswith(".gz") else [raw]:
        for cut in CUTS:
            path = tmp_path / "cut"
            path.write_bytes(form[: cut if isinstance(cut, int) else int(len(form) * cut)])
            answer = asked(path)
            if isinstance(answer, BadFile):
                assert "is cut off" in answer.message
                assert answer.looked_in
                assert "copy the file again" in answer.hint
                continue
            answered += 1
            assert answer.verdict.startswith("the file is cut off")
            assert len(answer.to_dict()["cut"]) == 1
            if isinstance(cut, float) and cut >= MOST_KEPT and whole.findings:
                assert answer.findings[0].code == whole.findings[0].code
                assert answer.findings[0].share_fraction == pytest.approx(whole.findings[0].share_fraction, abs=0.07)
    assert answered == CASES[name]
