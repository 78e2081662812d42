"""An error says what, where and what to do."""

from gpuwise.core.errors import GpuwiseError, MissingExtra


def test_error_text_has_all_three_parts() -> None:
    error = GpuwiseError("unknown GPU 'x'", looked_in="3 GPUs", hint="try `gpuwise gpus`")
    assert str(error) == "error: unknown GPU 'x'\n  looked in: 3 GPUs\n\nhint: try `gpuwise gpus`"


def test_error_text_lists_the_known_values_under_their_own_label() -> None:
    error = GpuwiseError("unknown task 'x'", known="vision, nlp", hint="did you mean `nlp`?")
    assert str(error) == "error: unknown task 'x'\n  known values: vision, nlp\n\nhint: did you mean `nlp`?"


def test_error_text_without_parts_is_one_line() -> None:
    assert str(GpuwiseError("it broke")) == "error: it broke"


def test_missing_extra_prints_its_install_line() -> None:
    assert 'pip install "gpuwise[nvidia]"' in str(MissingExtra("nvidia-ml-py", extra="nvidia", needed_for="seeing NVIDIA GPUs"))
