"""Files and places that nobody prepares: huge and sparse, on a bad disk, in a deleted folder, without a name or permission."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import gpuwise
from gpuwise.core.errors import BadFile
from gpuwise.trace import chunks
from gpuwise.trace.read import find_files, read_trace
from gpuwise.workload.capture.script.user_files import text_of
from gpuwise.workload.store import files

TOO_LARGE = 64 * 2**20 + 1
COMMAND = [sys.executable, "-m", "gpuwise"]


def sparse(path: Path, size_bytes: int, head: bytes = b"") -> Path:
    """A file of zeros after its head, which takes no room on the disk."""
    path.write_bytes(head)
    os.truncate(path, size_bytes)
    return path


@contextmanager
def without_privileges() -> Iterator[None]:
    """Permissions do not apply to root."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


# ---------------------------------------------------------------- sizes


def test_a_workload_far_larger_than_any_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="is larger than 64 MB"):
        files.read(sparse(tmp_path / "model.json", TOO_LARGE))


def test_python_code_that_nobody_wrote_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="too large") as refused:
        text_of(sparse(tmp_path / "model.py", TOO_LARGE))
    assert refused.value.hint


def test_a_table_without_lines_is_not_read_as_one(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="has a line of more than 1,048,576 characters"):
        gpuwise.validate(sparse(tmp_path / "table.csv", 2**21, b"gpu,model\n"))


def test_an_event_without_end_takes_little_more_memory_than_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 4 * 2**20
    monkeypatch.setattr(chunks, "_LARGEST_EVENT_BYTES", limit)
    path = sparse(tmp_path / "trace.json", 8 * limit, b'{"traceEvents": [{"name": "')
    tracemalloc.start()
    try:
        with pytest.raises(BadFile, match="an event that does not end"):
            read_trace(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * limit


# ---------------------------------------------------------------- disks and permissions


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file whose first byte cannot be read")
def test_a_file_that_cannot_be_read_though_it_opens_is_told() -> None:
    """A disk that fails and a server that has gone give the same error."""
    with pytest.raises(BadFile, match=r"'/proc/self/mem' cannot be read: Input/output error") as told:
        read_trace(Path("/proc/self/mem"))
    assert told.value.hint


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs permissions")
def test_what_cannot_be_read_in_a_folder_is_left_out_and_the_folder_itself_is_told() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "trace.json").write_text("[]", encoding="utf-8")
        (folder / "listed").mkdir()
        (folder / "listed" / "other.json").write_text("[]", encoding="utf-8")
        (folder / "closed").mkdir()
        (folder / "listed").chmod(0o404)  # its names can be listed, but not what they stand for
        (folder / "closed").chmod(0o000)
        try:
            with without_privileges():
                assert find_files([name]) == (folder / "trace.json",)
                with pytest.raises(BadFile, match="closed' cannot be read: Permission denied"):
                    find_files([str(folder / "closed")])
        finally:
            (folder / "listed").chmod(0o755)
            (folder / "closed").chmod(0o755)


def test_an_empty_name_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace.json").write_text("[]", encoding="utf-8")
    with pytest.raises(BadFile, match="a file name is empty"):
        find_files([""])


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use cannot be deleted")
@pytest.mark.parametrize("words", [["tune", "train.py"], ["capture", "model.py:Net"]])
def test_a_deleted_folder_is_told(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "gone").mkdir()
    script = f"cd '{tmp_path}/gone' && rmdir '{tmp_path}/gone' && exec \"$@\""
    done = subprocess.run(["bash", "-c", script, "-", *COMMAND, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: the current folder no longer exists")
    assert "hint: " in done.stderr


def test_code_that_deletes_its_own_file_is_captured(tmp_path: Path) -> None:
    own = "import os, torch\nos.remove(__file__)\ndef net(): return torch.nn.Linear(8, 8), (torch.zeros(2, 8),)\n"
    (tmp_path / "net.py").write_text(own, encoding="utf-8")
    assert gpuwise.capture(f"{tmp_path}/net.py:net").workload.parameters == 72


# ---------------------------------------------------------------- output


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_error_that_cannot_be_written_keeps_its_exit_code() -> None:
    with Path("/dev/full").open("w") as full:
        assert subprocess.run([*COMMAND, "gpus", "nope"], stdout=subprocess.PIPE, stderr=full, check=False).returncode == 2


@pytest.mark.skipif(sys.platform == "win32", reason="pipes close differently")
def test_a_reader_of_the_help_that_leaves_early_is_no_error() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run([*COMMAND, "predict", "--help"], stdout=theirs, stderr=subprocess.PIPE, check=False)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, b"")
