"""Setting a power limit: the real nvidia-ml-py on a stand-in for its driver; the limit is restored whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from making_nvml import build_nvml

pytestmark = pytest.mark.slow
BEFORE = 320000
MEASURED = """
import sys
from gpuwise.questions.tune.power import PowerPoint, measured_points
from gpuwise.live.sample.power_limit import card_of
from gpuwise.live.tune.types import Trial

card = card_of("GPU-1")
points = [
    PowerPoint(
        limit_watts=watts, step_s=1, speed_fraction=1, speed_low_fraction=1, speed_high_fraction=1, watts=1, joules_per_sample=1
    )
    for watts in (150, 200, 250)
]

def run():
    now = card_of("GPU-1").now
    print("at", now, flush=True)
    {body}
    return Trial(batch=10, step_s=100 / now, watts=now / 1000)

for point in measured_points(points, card, run):
    print(point.limit_watts, point.measured_step_s, point.measured_watts, point.measured_joules_per_sample, flush=True)
"""

APPLIED = """
import sys
from gpuwise.questions.tune import power as tune_powering
from gpuwise.surfaces.cli.main import main
from gpuwise.live.sample.power_limit import card_of
from gpuwise.live.tune.types import DeviceFacts, Trial

facts = DeviceFacts(
    device="cuda:0",
    name="NVIDIA GeForce RTX 3090",
    torch="2.9",
    threads=8,
    memory_bytes=24e9,
    precisions=("fp32", "amp"),
    uuid="GPU-1",
)

def run(order, facts, **more):
    assert (order.request.model, order.request.batch, order.device) == ("torchvision:resnet50", 64, "cuda:0")
    watts = card_of("GPU-1").now / 1000
    return Trial(batch=64, step_s=20 / watts, watts=watts)

tune_powering.facts_of, tune_powering.run_model = lambda device: facts, run
sys.argv = "gpuwise tune power resnet50 --precision amp --batch 64 --apply --limits 150,200W --json".split()
main()
"""


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_nvml(tmp_path_factory.mktemp("nvml"))


def start(nvml: Path, folder: Path, body: str, scenario: str = "healthy") -> tuple[subprocess.Popen[str], Path]:
    """A program that measures under three limits, on a card that is set to 320 W before."""
    limit = folder / "limit"
    limit.write_text(str(BEFORE))
    variables = {**os.environ, "LD_LIBRARY_PATH": str(nvml), "NVML_LIMIT_FILE": str(limit), "NVML_SCENARIO": scenario}
    process = subprocess.Popen(
        [sys.executable, "-c", MEASURED.format(body=body)],
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    return process, limit


def restored(limit: Path, within_s: float = 20.0) -> bool:
    end = time.monotonic() + within_s
    while limit.read_text() != str(BEFORE) and time.monotonic() < end:
        time.sleep(0.1)
    return limit.read_text() == str(BEFORE)


def test_every_limit_is_set_measured_and_the_first_one_restored(nvml: Path, tmp_path: Path) -> None:
    process, limit = start(nvml, tmp_path, "pass")
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    seen = sorted(int(line.split()[1]) for line in out.splitlines() if line.startswith("at"))
    assert seen == [150000, 200000, 250000]
    rows = [list(map(float, line.split())) for line in out.splitlines() if not line.startswith("at")]
    assert [row[0] for row in rows] == [150.0, 200.0, 250.0]  # in the order asked, whatever the order of the runs
    for watts, step_s, drew, joules in rows:
        assert step_s == pytest.approx(100 / (watts * 1000))
        assert joules == pytest.approx(drew * step_s / 10)
    assert limit.read_text() == str(BEFORE)


@pytest.mark.parametrize("body", ["raise RuntimeError('broken')", "import os; os.abort()", "import os; os._exit(1)"])
def test_a_crash_restores_the_limit(nvml: Path, tmp_path: Path, body: str) -> None:
    process, limit = start(nvml, tmp_path, body)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert restored(limit)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_restores_the_limit(nvml: Path, tmp_path: Path, number: signal.Signals) -> None:
    process, limit = start(nvml, tmp_path, "import time; time.sleep(600)")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("at")
    assert limit.read_text() != str(BEFORE)
    os.killpg(process.pid, number)  # as a terminal does: to the whole group
    process.communicate(timeout=60)
    assert restored(limit)


def test_without_rights_nothing_is_changed_and_the_reason_told(nvml: Path, tmp_path: Path) -> None:
    process, limit = start(nvml, tmp_path, "pass", "no_rights")
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "Insufficient Permissions" in errors
    assert "administrator rights" in errors
    assert limit.read_text() == str(BEFORE)


def test_apply_measures_under_each_limit_beside_the_prediction(nvml: Path, tmp_path: Path) -> None:
    """The command line whole, but for the run itself, for which there is no card here."""
    limit = tmp_path / "limit"
    limit.write_text(str(BEFORE))
    variables = {**os.environ, "LD_LIBRARY_PATH": str(nvml), "NVML_LIMIT_FILE": str(limit), "NVML_SCENARIO": "healthy"}
    done = subprocess.run(
        [sys.executable, "-c", APPLIED], env=variables, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["gpu"], answer["measured"]) == ("RTX 3090", True)
    for row, watts in zip(answer["limits"], (150, 200), strict=True):
        assert (row["limit_watts"], row["measured_watts"]) == (watts, watts)
        assert row["measured_step_s"] == pytest.approx(20 / watts)
        assert row["measured_joules_per_sample"] == pytest.approx(20 / 64)
        assert row["step_s"] > 0
    assert answer["limit_for_95_watts"] == 200
    assert limit.read_text() == str(BEFORE)
