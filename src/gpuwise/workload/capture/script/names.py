"""Stand-ins for what a training script calls besides its model: data loaders, several processes, checkpoints, clipping."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import torch
import torch.utils.checkpoint
import torch.utils.data
from torch._subclasses.fake_tensor import unset_fake_temporarily

from gpuwise.workload.capture.script.modes import Placement
from gpuwise.workload.capture.torch.stand_ins import Note, StandIn, always

__all__ = ["script_names"]


def script_names(placement: Placement, note: Note) -> list[StandIn]:
    """Stand-ins for what a whole script uses, besides `gpu_names`."""
    return [*_single_process(note), *_host_work(placement)]


# ---------------------------------------------------------------- several processes


class _OneReplica(torch.nn.Module):
    """A model wrapped for several GPUs, running on one."""

    def __init__(self, module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def no_sync(self) -> Any:
        return contextlib.nullcontext()


def _single_process(note: Note) -> list[StandIn]:
    text = (
        "the script trains on several GPUs, but only the work of one GPU is captured, without gradient "
        "exchange (see `gpuwise plan`)"
    )

    class Replica(_OneReplica):
        def __init__(self, module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
            note(text)
            super().__init__(module, *args, **kwargs)

    def spawn(fn: Any, args: Any = (), *rest: Any, **kwargs: Any) -> None:
        note(text)
        fn(0, *args)

    def initialize(*args: Any, **kwargs: Any) -> None:
        started.append(True)
        note(text)

    started: list[bool] = []
    distributed, parallel = torch.distributed, torch.nn.parallel
    silent = "destroy_process_group barrier all_reduce broadcast reduce broadcast_object_list".split()
    constants = {"get_rank": 0, "get_world_size": 1, "get_backend": "nccl"} | dict.fromkeys(silent)
    return [
        (torch.nn, "DataParallel", Replica),
        (parallel, "DataParallel", Replica),
        (parallel, "DistributedDataParallel", Replica),
        (parallel.distributed, "DistributedDataParallel", Replica),
        (torch.multiprocessing, "spawn", spawn),
        (distributed, "init_process_group", initialize),
        (distributed, "is_initialized", lambda: bool(started)),
        *((distributed, name, always(value)) for name, value in constants.items()),
    ]


# ---------------------------------------------------------------- data on the host


class _HostIterator:
    """The batches of a data loader, loaded for real and not recorded."""

    def __init__(self, batches: Any, placement: Placement) -> None:
        self._batches, self._placement = batches, placement

    def __iter__(self) -> _HostIterator:
        return self

    def __next__(self) -> Any:
        with self._placement.host():
            return next(self._batches)

    def __len__(self) -> int:
        return len(self._batches)


def _host_work(placement: Placement) -> list[StandIn]:
    loader = torch.utils.data.DataLoader
    init, iterate, checkpoint = loader.__init__, loader.__iter__, torch.utils.checkpoint.checkpoint
    clip = torch.nn.utils.clip_grad_norm_
    here = {
        "num_workers": 0,
        "pin_memory": False,
        "persistent_workers": False,
        "prefetch_factor": None,
        "timeout": 0,
        "multiprocessing_context": None,
    }

    @functools.wraps(init)
    def init_here(self: Any, dataset: Any, batch_size: Any = 1, shuffle: Any = None, *rest: Any, **options: Any) -> None:
        names = ("sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory", "drop_last", "timeout", "worker_init_fn")
        options = dict(zip(names, rest, strict=False)) | options | here
        options.pop("pin_memory_device", None)
        init(self, dataset, batch_size, shuffle, **options)

    def iterate_here(self: Any) -> _HostIterator:
        with placement.host():
            return _HostIterator(iterate(self), placement)

    def checkpoint_here(function: Any, *args: Any, **options: Any) -> Any:
        def again(*inner: Any, **more: Any) -> Any:  # the second time, inside the backward pass, no function mode is active
            with placement.inside():
                return function(*inner, **more)

        return checkpoint(again, *args, **(options | {"preserve_rng_state": False}))

    @functools.wraps(clip)
    def clip_grad_norm(
        parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: Any = None
    ) -> Any:
        return clip(parameters, max_norm, norm_type, error_if_nonfinite, True if foreach is None else foreach)

    def real(original: Any) -> Any:
        def make(*args: Any, **kwargs: Any) -> Any:
            with unset_fake_temporarily():
                return original(*args, **kwargs)

        return make

    return [
        (loader, "__init__", init_here),
        (loader, "__iter__", iterate_here),
        (torch.utils.checkpoint, "checkpoint", checkpoint_here),
        (torch.nn.utils, "clip_grad_norm_", clip_grad_norm),
        (torch, "from_numpy", real(torch.from_numpy)),
        (torch, "frombuffer", real(torch.frombuffer)),
    ]
