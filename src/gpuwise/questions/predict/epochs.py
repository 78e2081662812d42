"""How long training takes: one pass over a number of samples, and the requested number of epochs."""

from __future__ import annotations

from dataclasses import replace

from gpuwise.core.errors import BadValue
from gpuwise.questions.common.prediction_types import PredictAnswer, Training
from gpuwise.questions.predict.options import PredictOptions

__all__ = ["check_epochs", "with_epochs"]

_MOST_SAMPLES, _MOST_EPOCHS = 1e18, 1e9  # as over HTTP


def check_epochs(options: PredictOptions, *, generates: bool) -> None:
    """Refuse numbers that no training has, a number of samples if nothing is trained, and epochs without samples."""
    for name, value, most in (("samples", options.samples, _MOST_SAMPLES), ("epochs", options.epochs, _MOST_EPOCHS)):
        if value is not None and not 0 < value <= most:
            raise BadValue(f"invalid --{name} {value:g}", hint=f"give a number above 0, at most {most:,.0f}")
    if options.epochs is not None and options.samples is None:
        raise BadValue("`--epochs` needs the number of samples in an epoch", hint="try `--samples 50000 --epochs 3`")
    if options.samples is not None and (generates or options.mode == "infer" or options.phase):
        raise BadValue(
            "`--samples` sets the number of samples in a training epoch, but the model is not trained here",
            hint="add `--mode train`, or leave out `--samples`",
        )


def with_epochs(answer: PredictAnswer, options: PredictOptions) -> PredictAnswer:
    """Return the same answer with the time of one epoch and of all epochs, if samples were given."""
    if options.samples is None:
        return answer
    if any(result.mode != "train" for result in answer.results):
        check_epochs(options, generates=True)
    training = Training(samples=options.samples, epochs=options.epochs or 1.0)
    return replace(answer, results=tuple(replace(result, training=training) for result in answer.results))
