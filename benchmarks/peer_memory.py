"""What accelerate and torch's MemTracker say a training step needs. Runs in the environment of those peers, without gpuwise.
`memory_estimators.py` uses the same tracker.

Reads `[[model of timm, batch], …]` as JSON from stdin, and writes `[[bytes by accelerate, bytes by MemTracker], …]`.

- accelerate: what `accelerate estimate-memory` prints for training in float32, computed with its own functions on a local timm
  model (the command itself would fetch it from the Hugging Face hub).
- MemTracker: `torch.distributed._tools.mem_tracker` around two steps of SGD with momentum on fake tensors.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def by_accelerate(model: Any) -> float:
    """The largest of the figures that it prints for training."""
    from accelerate.commands.estimate import estimate_training_usage
    from accelerate.utils import calculate_maximum_sizes

    total, _ = calculate_maximum_sizes(model)
    return float(max(estimate_training_usage(total, "float32").values()))


def by_tracker(model: Any, batch: int) -> float:
    """The peak that MemTracker sees in two training steps on fake tensors, with the optimizer that gpuwise assumes. The model has
    real weights, because its constructor may read values."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    mode = FakeTensorMode()
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = torch.nn.Parameter(mode.from_tensor(parameter.detach()))
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = mode.from_tensor(buffer)
    with mode:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        inputs = torch.randn(batch, *model.default_cfg["input_size"])
        target = torch.zeros(batch, dtype=torch.long)
        tracker = MemTracker()
        tracker.track_external(model, optimizer, inputs, target)
        with tracker:
            for step in range(2):
                torch.nn.functional.cross_entropy(model(inputs), target).backward()
                optimizer.step()
                optimizer.zero_grad()
                if step == 0:
                    tracker.reset_mod_stats()
        peak = tracker.get_tracker_snapshot("peak")
    return float(max(entries["Total"] for entries in peak.values()))


def main() -> None:
    """Both estimates for every row."""
    import torch

    try:
        import torchvision  # timm imports it
    except RuntimeError:  # its operators were compiled for another build of torch, so declare the two that its import expects
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision  # noqa: F401
    import timm

    found = []
    for name, batch in json.load(sys.stdin):
        model = timm.create_model(name).train()
        found.append([by_accelerate(model), by_tracker(model, batch)])
        print(name, batch, file=sys.stderr, flush=True)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
