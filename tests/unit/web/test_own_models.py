"""The user's own model on the page: its file is read, nothing in it is run, and nothing of it stays on disk."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from gpuwise.workload.capture.request import Request
from gpuwise.workload.store import files, zoo
from making_gguf import header, llama
from serving import Reply, Server, served

pytest.importorskip("fastapi", reason="the page needs gpuwise[web]")
pytest.importorskip("uvicorn", reason="the page needs gpuwise[web]")

from gpuwise.surfaces.web.own_models import MOST_BYTES, OwnModels, own_file

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "_name_or_path": "somebody/Tiny-Llama",
    "hidden_size": 2048,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "intermediate_size": 5632,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with served(folder) as running:
        yield running


def drop(server: Server, name: str, content: bytes | dict[str, Any]) -> Reply:
    body = json.dumps(content).encode() if isinstance(content, dict) else content
    return server.send("POST", f"/api/own?{urlencode({'name': name})}", body)


@pytest.fixture(scope="module")
def workload() -> bytes:
    return gzip.compress(files.encode(zoo.load("resnet50", Request(model="resnet50"))), mtime=0)


def test_a_dropped_config_answers_as_it_does_on_the_command_line(server: Server, folder: Path, tmp_path: Path) -> None:
    reply = drop(server, "config.json", LLAMA)
    assert reply.status == 200, reply.body
    told = reply.json
    assert told["kind"] == "language"
    assert told["title"] == "Tiny-Llama"
    assert 1.0e9 < told["parameters"] < 1.2e9
    path = tmp_path / "Tiny-Llama.json"
    path.write_text(json.dumps(LLAMA), encoding="utf-8")
    from gpuwise import predict

    mine = server.ask("predict", model=told["model"], gpu=["RTX 3090"], weights="q4_k_m", users=4)
    assert mine.status == 200, mine.body
    assert mine.json == json.loads(
        json.dumps(predict(str(path), gpu=["RTX 3090"], weights="q4_k_m", users=4).to_dict(), default=str)
    )
    for question, options in (
        ("fit", {"model": told["model"], "gpu": ["RTX 3090"]}),
        ("which", {"model": [told["model"]], "users": 4}),
        ("compare", {"model": [told["model"]], "names": ["RTX 3090", "RTX 4090"]}),
    ):
        answer = server.ask(question, **options)
        assert answer.status == 200, (question, answer.body)
        assert str(folder).encode() not in answer.body
    assert list(folder.iterdir()) == []


def test_a_workload_file_is_a_model_like_any_other(server: Server, folder: Path, workload: bytes) -> None:
    told = drop(server, "mine.json.gz", workload).json
    assert (told["kind"], told["mode"], told["sizes"]) == ("workload", "train", ["batch"])
    for question, options in (("predict", {"gpu": ["RTX 3090"]}), ("fit", {"gpu": ["RTX 3090"]})):
        mine = server.ask(question, model=told["model"], batch="32", **options).json
        zoos = server.ask(question, model="resnet50", batch="32", precision=told["precision"], **options).json
        step = [one["results"][0]["step_s"] if question == "predict" else one["max_batch"] for one in (mine, zoos)]
        assert step[0] == pytest.approx(step[1], rel=0.05)
    assert server.ask("sweep", model=told["model"], gpu=["RTX 3090"], batches=[1, 8]).status == 200
    assert server.ask("which", model=[told["model"]], budget=800).status == 200
    assert server.ask("plan", model=told["model"], cluster="2xRTX 3090", scaling=False).status == 200
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("sent_fraction", [0.0, 0.5])
def test_the_beginning_of_a_gguf_file_is_enough(server: Server, sent_fraction: float) -> None:
    """The page sends as much of a file as a header can take, which may include tensors."""
    head, size = header(*llama())
    told = drop(server, "tiny.gguf", head + bytes(int(sent_fraction * size)))
    assert told.status == 200, told.body
    assert told.json["kind"] == "language"
    assert told.json["weights"] == "q4_0"


def test_a_model_that_is_only_sizes_is_not_trained_and_starts_no_framework(server: Server) -> None:
    told = drop(server, "config.json", LLAMA).json
    refused = server.ask("predict", model=told["model"], gpu=["RTX 3090"], mode="train")
    assert refused.status == 400
    assert "gpuwise capture" in refused.json["hint"]
    if Path("/proc").is_dir():
        assert not any("capture" in line for line in server.children())


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("config.json", b"", "not a model file"),
        ("config.json", b"[1, 2]", "not a model file"),
        ("config.json", b'{"a": 1}', "model_type"),
        ("config.json", b'{"model_type": "llama"', "not JSON"),
        ("config.json", b'{"model_type": "llama", "hidden_size": 1e400}', ""),
        ("config.json", b'{"model_type": "bert"}', "encoder"),
        ("config.json", b'{"a":' * 20_000, ""),
        ("m.gguf", b"GGUF\x03\x00\x00\x00", ""),
        ("m.gguf", b"GGUF" + b"\xff" * 400, ""),
        ("m.json.gz", b"\x1f\x8b rubbish", "cannot be unpacked"),
        ("m.json.gz", gzip.compress(b" " * (65 * 2**20), mtime=0), "unpacks to more"),
        ("m.json.gz", gzip.compress(b'{"format": "gpuwise-workload", "version": 1}', mtime=0), "damaged"),
        ("m.json", b'{"format": "gpuwise-workload", "version": 99}', "version 99"),
        ("net.py", b"import os", "not a model file"),
        ("m.onnx", b"\x08\x07\x12\x07pytorch", "not a model file"),
    ],
)
def test_bad_files_are_refused_with_a_reason(server: Server, folder: Path, name: str, content: bytes, word: str) -> None:
    reply = drop(server, name, content)
    assert reply.status == 400, reply.body
    assert word in reply.json["error"]
    assert str(folder) not in reply.body.decode()
    assert list(folder.iterdir()) == []


def test_too_large_a_file_and_an_unknown_handle_are_refused(server: Server) -> None:
    assert drop(server, "m.gguf", b"GGUF" + b"\0" * MOST_BYTES).status == 413
    unknown = server.ask("predict", model="own:00", gpu=["RTX 3090"])
    assert unknown.status == 400
    assert "drop the file" in unknown.json["hint"]
    assert server.send("GET", "/api/own?model=own:00").status == 400
    told = drop(server, "config.json", LLAMA).json
    assert server.send("GET", f"/api/own?model={told['model']}").json == told
    assert server.ask("gpus", names=[told["model"]]).status == 400


def test_a_name_cannot_leave_its_folder(server: Server, folder: Path) -> None:
    for name in ("../../../etc/passwd", "/etc/passwd.json", "..\\..\\x.json", "\x00.json", "a" * 200):
        reply = drop(server, name, LLAMA | {"_name_or_path": "../../../tmp/evil"})
        assert reply.status == 200, reply.body
        assert "/" not in reply.json["title"]
    assert list(folder.iterdir()) == []


def test_only_the_models_used_last_are_kept() -> None:
    kept = OwnModels(most=2, most_bytes=100)
    one, two, three = (own_file("m.json", bytes([place]) * 10) for place in range(3))
    kept.keep(one, b"1")
    kept.keep(two, b"2")
    kept.meant({"model": one.handle})
    kept.keep(three, b"3")
    assert [kept.description(file.handle) for file in (one, two, three)] == [b"1", None, b"3"]
    kept.keep(own_file("large", b"x" * 95), b"4")
    assert kept.description(three.handle) is None
