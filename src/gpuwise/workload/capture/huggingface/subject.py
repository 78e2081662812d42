"""Turns a request for a transformers model into a subject to record: sizes, inputs, step, and the assumptions about them."""

from __future__ import annotations

from typing import Any

from gpuwise.core.errors import BadValue
from gpuwise.workload.capture.huggingface.build import build, kept_dtype, train_top
from gpuwise.workload.capture.huggingface.generate import Generation
from gpuwise.workload.capture.huggingface.steady import fixed_course, steady
from gpuwise.workload.capture.huggingface.tasks import Task, longest, step_of
from gpuwise.workload.capture.request import Request
from gpuwise.workload.capture.torch.step import Subject

__all__ = ["Capture"]

_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_FIT_ON = (64, 128, 192)


class Capture:
    """Combines the parts for one request."""

    def __init__(self, request: Request, config: Any, task: Task, head: str, phase: str, notes: tuple[str, ...]) -> None:
        self._request, self._config, self._task, self._head, self._phase = request, config, task, head, phase
        self._notes, self._limit = [*notes, f"captured as {head} ({task.name})"], longest(task, config)
        self._model: Any = None
        self._few = self._few_pairs()

    def subject(self) -> Subject:
        """Return the subject for the recorder."""
        inputs, forward = self._step()
        has_seq = bool(self._task.seq) and not (self._phase == "prefill" and self._task.mapping == "SPEECH_SEQ_2_SEQ")
        seq = self._seq() if has_seq else None
        return Subject(
            build=self._build,
            inputs=inputs,
            forward=fixed_course(forward),
            batch=self._task.batch if self._request.settings.mode == "train" or not self._phase else 1,
            seq=seq,
            seqs=self._seqs(seq) if seq is not None else _FIT_ON,
            notes=tuple(self._notes),
        )

    def _seq(self) -> int:
        limit, asked = self._limit, self._request.seq
        if asked is not None and asked < 1:
            raise BadValue(f"a sequence of {asked} tokens cannot be captured", hint="use at least 1")
        if asked is not None and limit is not None and asked > limit:
            raise BadValue(
                f"{self._request.model} takes at most {limit:,} positions, not {asked:,}", hint=f"use `--seq {limit}` or less"
            )
        return asked or min(self._task.seq, limit or self._task.seq)

    def _seqs(self, seq: int) -> tuple[int, int, int]:
        """Return lengths to fit on, on the same side of the sliding window as the requested one, because attention changes
        there.
        """
        limit, window = self._limit or 10**9, self._window()
        low, high = 0, limit
        if window is not None:
            low, high = (window, limit) if seq > window else (0, min(limit, window))
            side = "above" if low else "up to"
            self._notes.append(
                f"the model has a sliding window of {window:,} tokens, so the capture is valid for sequences {side} that length"
            )
        room = high - low
        if room < 8:
            raise BadValue(
                f"{self._request.model} supports at most {limit} positions, too few to capture",
                hint="use a model with at least 8 positions",
            )
        if room > _FIT_ON[-1]:
            return (low + _FIT_ON[0], low + _FIT_ON[1], low + _FIT_ON[2])
        return (low + room // 4, low + room // 2, low + 3 * room // 4)

    def _window(self) -> int | None:
        window = getattr(self._config.get_text_config(), "sliding_window", None)
        return window if isinstance(window, int) and window > 0 and self._task.mapping == "CAUSAL_LM" else None

    def _step(self) -> tuple[Any, Any]:
        task, config = self._task, self._config
        if self._phase:
            return self._generation()
        training = self._request.settings.mode == "train"

        def inputs(batch: int, seq: int | None) -> Any:
            given = task.inputs(config, batch, seq or 0)
            labels = task.labels(config, batch, seq or 0)
            if training:
                return given | labels
            return given | {"decoder_input_ids": labels["labels"]} if config.is_encoder_decoder else given

        return inputs, step_of(task)

    def _generation(self) -> tuple[Any, Any]:
        dtype = kept_dtype(self._request.settings.precision)
        self._notes.append(
            "prefill processes the whole sequence, scores the last token, and writes keys and values to a cache in place"
            if self._phase == "prefill"
            else "decode computes one token per sequence, where seq is the length of the cache, which is written in place"
        )
        task, config = self._task, self._config
        step = Generation(self._phase, lambda: self._model, dtype, lambda batch, seq: task.inputs(config, batch, seq))

        def inputs(batch: int, seq: int | None) -> Any:
            with steady():  # the first call runs the model to inspect its cache
                return step.inputs(batch, seq)

        return inputs, step.forward

    def _build(self) -> Any:
        self._model = build(self._config, self._head, self._few)
        if self._request.variant == "top":
            train_top(self._model)
        return self._model

    def _few_pairs(self) -> bool:
        """Return whether a step has fewer token-expert pairs than experts, and note how the experts are captured."""
        text = self._config.get_text_config()
        experts = next((count for name in _EXPERTS if (count := getattr(text, name, None))), 0)
        choices = getattr(text, "num_experts_per_tok", None) or 1
        if not experts:
            return False
        self._notes.append(f"{choices} of {experts} experts process each token; tokens are assumed to be spread evenly")
        if self._phase != "decode":
            return False
        few = (self._request.batch or 1) * choices < experts
        self._notes.append(
            f"each token reads its own {choices} experts, so the capture is valid for batches of up to "
            f"{max(1, experts // choices)}"
            if few
            else f"every step reads all experts, so the capture is valid for batches of {-(-experts // choices)} or more"
        )
        return few
