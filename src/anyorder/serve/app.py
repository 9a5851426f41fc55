"""The application: every dialect of the API, the page, health and metrics, behind one gate."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from anyorder import __version__
from anyorder.errors import AnyorderError
from anyorder.serve import pages
from anyorder.serve.answers import Json, refused
from anyorder.serve.api import fill_mask, libretranslate, openai, ours
from anyorder.serve.documents import document
from anyorder.serve.gate import Door, Gate
from anyorder.serve.problems import sentence
from anyorder.serve.proxy import Forwarded, Proxies
from anyorder.serve.refusal import INTERNAL, Refusal, refusal, wrong
from anyorder.serve.server import Server, Settings, address, bearer
from anyorder.text.load import Model

ABOUT = """Text written in any order, over HTTP. Clients of LibreTranslate, of OpenAI and of Hugging Face's fill-mask
work unchanged; `/v1/stream` tells of every step as it is taken."""
DIALECTS = (libretranslate, openai, fill_mask, ours)


def create(models: Mapping[str, Model], settings: Settings | None = None, pipe: Connection | None = None) -> FastAPI:
    """The application that serves these models by their names. `app.state.server` is the server behind it.

    The models run on a thread here, or in the process at the other end of a pipe.
    """
    server = Server(models, settings or Settings(), pipe)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        server.scheduler.start()
        yield
        server.scheduler.stop()

    app = FastAPI(
        title="anyorder", version=__version__, description=ABOUT, lifespan=life, docs_url=None, redoc_url=None
    )
    app.state.server = server
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
    dialects = [dialect.routes(server) for dialect in DIALECTS]
    for dialect in dialects:
        app.include_router(dialect)
    app.include_router(pages.routes(server, app))
    _watched(app, server)
    _refusing(app)
    app.add_middleware(Door, limits=server.limits, refuses=server.refuses)
    if server.settings.origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(server.settings.origins), allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )  # fmt: skip
    app.add_middleware(
        Gate, meters=server.meters, texts=server.settings.texts,
        paths=frozenset(route.path for dialect in dialects for route in dialect.routes),
    )  # fmt: skip
    proxies = Proxies(server.settings.proxies)
    app.add_middleware(Forwarded, proxies=proxies, root_path=server.settings.root_path)
    return app


def _watched(app: FastAPI, server: Server) -> None:
    """What whoever runs the server asks."""

    @app.get("/health", tags=["operation"])
    async def health() -> Json:
        """Is the process alive, with its model's thread?"""
        alive = server.scheduler.alive
        return Json({"status": "ok" if alive else "the model's thread has ended"}, 200 if alive else 503)

    @app.get("/ready", tags=["operation"])
    async def ready() -> Json:
        """Should requests be sent here? Not while it stops."""
        ready = server.scheduler.alive and not server.scheduler.draining
        return Json({"status": "ready" if ready else "stopping"}, 200 if ready else 503)

    @app.get("/metrics", tags=["operation"], response_class=Response)
    async def metrics(request: Request) -> Response:
        """Meters in Prometheus' format; with keys, one is needed unless the server says otherwise."""
        if not server.settings.open_metrics:
            server.keys.client(bearer(request), address(request))
        return Response(server.meters.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _refusing(app: FastAPI) -> None:
    """What is wrong is said in the shape that clients of the path read."""

    @app.exception_handler(Refusal)
    async def _(request: Request, error: Refusal) -> Response:
        return refused(request, error)

    @app.exception_handler(AnyorderError)
    async def _(request: Request, error: AnyorderError) -> Response:
        return refused(request, refusal(error) or Refusal(500, INTERNAL))

    @app.exception_handler(RequestValidationError)
    async def _(request: Request, error: RequestValidationError) -> Response:
        return refused(request, wrong(*sentence(error.errors())))

    @app.exception_handler(HTTPException)
    async def _(request: Request, error: HTTPException) -> Response:
        what: Any = {404: "there is nothing here: see /docs", 405: "not with this method: see /docs"}
        why = Refusal(error.status_code, what.get(error.status_code, str(error.detail)))
        return refused(request, why, error.headers)
