"""The server: one route a question, the page, and Plotly's script from its installed package."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from gpuwise import __version__
from gpuwise.advise.jobs import tasks
from gpuwise.box import parts
from gpuwise.box.types import COOLERS
from gpuwise.core.encoding import to_json
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.money.prices import PriceBook, price_now, rent_median
from gpuwise.questions.common.language.ask import generates_unasked
from gpuwise.questions.matters.topics import TOPICS
from gpuwise.step.time.engines import engines
from gpuwise.surfaces.web.answers import LIKELY, QUESTIONS
from gpuwise.surfaces.web.bodies import question_body
from gpuwise.surfaces.web.commands import Once, told
from gpuwise.surfaces.web.own_models import MOST_BYTES as OWN_BYTES
from gpuwise.surfaces.web.own_models import OwnModels, own_file
from gpuwise.surfaces.web.pool import Answers
from gpuwise.surfaces.web.safety import LOCAL_HOSTS, Guard
from gpuwise.surfaces.web.schema import Body
from gpuwise.surfaces.web.statics import page_routes
from gpuwise.surfaces.web.traces import MOST_BYTES, MOST_FILES, Traces
from gpuwise.workload.language.find import is_known_name, known_names
from gpuwise.workload.language.weight_formats import FORMATS
from gpuwise.workload.store import cache as captures
from gpuwise.workload.store import zoo

__all__ = ["create_app"]

_Name = Annotated[str, Field(max_length=200)]
_Bytes = Annotated[int, Field(ge=0, le=2**40)]

_PREPARE_AFTER_S = 3.0
_REFUSED: dict[int | str, dict[str, Any]] = {
    400: {"description": "The request could not be understood. The response contains error, looked_in and hint."},
    403: {"description": "The request came from another site."},
    413: {"description": "The request is too large."},
    422: {"description": "A field is missing, unknown or out of bounds. The response contains error, looked_in and hint."},
    503: {"description": "The request took too long, or a worker process ended."},
}


def create_app(
    hosts: Sequence[str] = LOCAL_HOSTS, workers: int = 2, most_trace_bytes: int = MOST_BYTES, *, prepare: bool = False
) -> FastAPI:
    """The whole server; `hosts` are the names it answers to. With `prepare`, the answers that the page offers and the one that
    takes longest are worked out soon after the start, before anyone asks for them."""
    answers = Answers(workers)
    kept = {"accuracy": Once("validate", "--json", folder=captures.folder() / "page"), "machine": Once("doctor", "--json")}

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        answers.start()
        early = asyncio.create_task(_prepared(answers, kept["accuracy"])) if prepare else None
        yield
        if early is not None:
            early.cancel()
            with suppress(asyncio.CancelledError):
                await early
        answers.close()
        for once in kept.values():
            await once.close()

    app = FastAPI(title="gpuwise", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.add_middleware(Guard, hosts=hosts, uploads=("/api/why", "/api/own"))
    app.add_exception_handler(RequestValidationError, _not_understood)
    app.add_exception_handler(HTTPException, _not_served)
    app.add_exception_handler(ClientDisconnect, _left)
    own = OwnModels()
    for name in QUESTIONS:
        _add_question(app, answers, own, name, question_body(name))
    _add_own(app, answers, own)
    _add_why(app, Traces(most_trace_bytes))
    _add_kept(app, "accuracy", kept["accuracy"], "How accurate are predictions for GPUs that were not used in the fit?")
    _add_kept(app, "machine", kept["machine"], "What hardware and software does this machine have?")
    _add_choices(app)
    _add_page(app)
    return app


async def _prepared(answers: Answers, once: Once) -> None:
    """Work answers out when the page has had time for its first ones."""
    await asyncio.sleep(_PREPARE_AFTER_S)
    await answers.prepare(LIKELY)
    await once.ask()


def _not_understood(request: Request, fault: Exception) -> Response:
    """Which fields are wrong and why. What was sent is not sent back: it may be large, or no text."""
    faults = fault.errors() if isinstance(fault, RequestValidationError) else []
    said = [f"{' '.join(str(part) for part in one['loc'][1:])[:100]}: {one['msg'][:200]}" for one in faults[:8]]
    clean = "; ".join(said).encode("utf-8", "replace").decode()
    return Response(
        told(clean.removeprefix(": "), "see /api.html for the options of each endpoint"), 422, media_type="application/json"
    )


def _not_served(request: Request, fault: Exception) -> Response:
    known = fault if isinstance(fault, HTTPException) else HTTPException(500)
    content = told(known.detail, "see /api.html for all endpoints")
    return Response(content, known.status_code, known.headers, media_type="application/json")


def _left(request: Request, fault: Exception) -> Response:
    """Nobody is there to read it; to leave is no fault."""
    return Response(told("the request was cancelled", ""), 503, media_type="application/json")


def _add_question(app: FastAPI, answers: Answers, own: OwnModels, name: str, body: type[Body]) -> None:
    async def ask(asked: Body, request: Request) -> Response:
        options = asked.model_dump(exclude_defaults=True)
        files, missing = own.meant(options)
        if missing:
            return Response(_gone_model(missing), 400, media_type="application/json")
        status, content = await answers.ask(name, options, request.is_disconnected, files)
        return Response(content, status, media_type="application/json")

    ask.__annotations__ = {"asked": body, "request": Request, "return": Response}  # the body differs by question
    app.post(f"/api/{name}", name=name, responses=_REFUSED, response_class=Response, summary=body.__doc__)(ask)


def _gone_model(handle: str) -> bytes:
    return told(f"the server no longer has the model '{handle}'", "drop the file on the page again")


def _add_own(app: FastAPI, answers: Answers, own: OwnModels) -> None:
    @app.post("/api/own", responses=_REFUSED, response_class=Response)
    async def keep(request: Request, name: _Name) -> Response:
        """Use a model of your own: the body is a config.json, the first part of a GGUF file, or a workload file. The `model` of
        the response can be used as the model in other requests, until the server stops. Nothing in the file is executed."""
        content = await _at_most(request, OWN_BYTES)
        if content is None:
            hint = "send the first part of a GGUF file, because only its header is read"
            refusal = told(f"the file is larger than {OWN_BYTES // 2**20} MiB", hint)
            return Response(refusal, 413, media_type="application/json", headers={"Connection": "close"})
        file = own_file(name, content)
        asked = {"model": file.handle, "handle": file.handle, "file": name}
        status, found = await answers.ask("own", asked, request.is_disconnected, (file,))
        if status == 200:
            own.keep(file, found)
        return Response(found, status, media_type="application/json")

    @app.get("/api/own", responses=_REFUSED, response_class=Response)
    async def description(model: _Name) -> Response:
        """What is known of a model that was sent to this server."""
        found = own.description(model)
        return Response(found or _gone_model(model), 200 if found else 400, media_type="application/json")


async def _at_most(request: Request, most: int) -> bytes | None:
    """The body, or None where it is longer than that; it is not read further."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            return None
    return bytes(body)


def _add_why(app: FastAPI, traces: Traces) -> None:
    @app.post("/api/why", responses=_REFUSED, response_class=Response)
    async def why(
        request: Request,
        name: Annotated[list[_Name], Query(min_length=1, max_length=MOST_FILES)],
        size: Annotated[list[_Bytes] | None, Query(max_length=MOST_FILES)] = None,
        gpu: Annotated[str, Query(max_length=200, pattern=r"^[^\x00]*$")] = "",
        compare: bool = False,
    ) -> Response:
        """Why is this training slow? The body contains one profiler file, or the concatenated files of several ranks with the
        `size` of each. The extension of each `name` determines the file format. With `compare`, the last file is a second run
        of the same training, and the response also says what differs."""
        options = [f"--gpu={gpu}"] if gpu else []
        status, content = await traces.diagnose(request, name, size or [], options, compare=compare)
        return Response(content, status, media_type="application/json")


def _add_kept(app: FastAPI, name: str, once: Once, summary: str) -> None:
    @app.get(f"/api/{name}", name=name, responses={503: _REFUSED[503]}, response_class=Response, summary=summary)
    async def ask() -> Response:
        status, content = await once.ask()
        return Response(content, status, media_type="application/json")


def _add_choices(app: FastAPI) -> None:
    @app.get("/api/choices", response_class=Response)
    def choices() -> Response:
        """The available models, GPUs, tasks and topics, and the questions that this server answers."""
        return Response(_choices(), media_type="application/json")


def _prices(gpu: Gpu, book: PriceBook) -> dict[str, Any]:
    """What one costs today, where that is known; a price at launch is not today's."""
    new, used = (price_now(gpu, book, condition) for condition in ("new", "used"))
    rent = rent_median(gpu, book)
    return {
        "new_usd": new.usd if new is not None and new.kind == "new" else None,
        "used_usd": used.usd if used is not None and used.kind == "used" else None,
        "rent_usd_per_hour": rent.usd_per_gpu_hour if rent is not None else None,
    }


@cache
def _choices() -> bytes:
    book = PriceBook.of()
    return to_json(
        {
            "models": [
                {
                    "name": entry.name,
                    "title": entry.title,
                    "family": entry.family,
                    "aliases": entry.aliases,
                    "sequence": entry.seq is not None,
                }
                for entry in zoo.entries().values()
            ],
            "gpus": [
                {
                    "name": gpu.name,
                    "vendor": gpu.vendor,
                    "segment": gpu.segment,
                    "memory_bytes": gpu.memory_bytes,
                    "launched_on": gpu.launched_on.isoformat() if gpu.launched_on else None,
                    **_prices(gpu, book),
                }
                for gpu in load_catalog().curated
            ],
            "tasks": [
                {"name": task.name, "title": task.title, "models": list(dict.fromkeys(job.model for job in task.jobs))}
                for task in tasks().values()
            ],
            "text": _text(),
            "topics": list(TOPICS),
            "box": _box(),
            "questions": list(QUESTIONS),
            "version": __version__,
        }
    )


def _text() -> dict[str, Any]:
    """What can be chosen where a language model generates text: those of the zoo, and which of these train unless told otherwise;
    others by their sizes, formats and engines."""
    every = [name for entry in zoo.entries().values() for name in (entry.name, *entry.aliases)]
    included = [name for name in every if is_known_name(name)]
    return {
        "included": included,
        "trained": [name for name in included if not generates_unasked(name)],
        "models": list(known_names()),
        "weights": list(FORMATS),
        "engines": [{"name": engine.name, "title": engine.title} for engine in engines().values()],
    }


def _box() -> dict[str, Any]:
    """What a machine can be made of, for the view that builds one."""
    told = ("name", "slot_lanes", "generation", "example")
    return {
        "platforms": [{key: getattr(platform, key) for key in told} for platform in parts.platforms().values()],
        "boards": [{"name": entry.name, "slots": entry.slots, "x16": entry.x16} for entry in parts.boards().values()],
        "outlets": list(parts.outlets()),
        "coolers": list(COOLERS),
        "cpus": [gpu.name for gpu in load_catalog().curated if gpu.is_cpu],
    }


def _add_page(app: FastAPI) -> None:
    @app.get("/api/docs", include_in_schema=False)
    def docs() -> Response:
        return RedirectResponse("/api.html")

    app.router.routes.extend(page_routes())
