"""Server: the models, the scheduler and the rules that every dialect of the API works with."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from starlette.requests import Request

from anyorder.serve.admission import Admission
from anyorder.serve.limits import Keys, Limits
from anyorder.serve.metrics import Meters
from anyorder.serve.process import Remote
from anyorder.serve.proxy import Proxies, client_of
from anyorder.serve.refusal import INTERNAL, Refusal, refusal
from anyorder.serve.scheduler import Scheduler
from anyorder.serve.served import served
from anyorder.serve.work import REQUEST
from anyorder.serve.work import Request as Admitted
from anyorder.text.batching import TOKEN_BUDGET
from anyorder.text.engine import Listener
from anyorder.text.load import Model, translates
from anyorder.text.translator import Translator

Done = TypeVar("Done")
log = logging.getLogger("anyorder.serve")


@dataclass(frozen=True)
class Settings:
    """How a server is run."""

    limits: Limits = field(default_factory=Limits)
    keys: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()  # other sites whose pages may ask (CORS)
    proxies: tuple[str, ...] = ()  # addresses, networks or "unix": proxies whose forwarded headers are read
    root_path: str = ""  # where a proxy shows the server
    open_metrics: bool = False  # /metrics needs no key
    texts: bool = False  # write texts into the log
    budget: int = TOKEN_BUDGET  # tokens in one batch, with padding

    def check(self) -> Settings:
        """These settings; an empty key or a proxy without an address is refused before a model is loaded."""
        Keys(self.keys, None)
        Proxies(self.proxies)
        return self


class Server:
    """What a request needs: models by their names, a way to have something written, and who may ask."""

    def __init__(self, models: Mapping[str, Model], settings: Settings, pipe: Connection | None = None) -> None:
        self.settings, self.limits = settings, settings.limits
        self.meters = Meters()
        how = settings.limits, self.meters, settings.budget
        self.scheduler: Admission = Scheduler(*how) if pipe is None else Remote(*how, pipe)
        self.keys = Keys(settings.keys, settings.limits.rate)
        self.models: dict[str, Model] = {name: served(name, model, self.scheduler) for name, model in models.items()}
        if isinstance(self.scheduler, Scheduler):
            self.scheduler.models = self.models
        self.started = int(time.time())
        self._threads = ThreadPoolExecutor(settings.limits.queue + 1, thread_name_prefix="request")

    # ------------------------------------------------------------------ models

    def model(self, name: str | None) -> Model:
        """A loaded model; the first one where none is named. Nothing is ever loaded for a request."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise Refusal(404, f"no model {name!r} here; there are {', '.join(self.models)}", code="model_not_found",
                          field="model")  # fmt: skip
        return self.models[name]

    def refuses(self, request: Request) -> Refusal | None:
        """Why a request would not be let in now, whatever it asks for; a wrong key is refused later."""
        try:
            client = self.keys.client(bearer(request), address(request))
        except Refusal:
            client = address(request)
        return self.scheduler.refuses(client)

    @property
    def translators(self) -> list[Translator]:
        """The models that translate."""
        return [model for model in self.models.values() if translates(model)]

    # ------------------------------------------------------------------ asking

    def admit(self, request: Request, key: str | None = None) -> None:
        """Let a client in, or refuse it: `key` is the body's, else it is the header's."""
        try:
            request.scope["notes"]["client"] = self.keys.admit(key or bearer(request), address(request))
        except Refusal as why:
            self.meters.refuse("rate" if why.status == 429 else "key")
            raise

    async def work(self, request: Request, sentences: int, job: Callable[[], Done]) -> Done:
        """The answer of `job`, on a thread of its own that uses the scheduler; it ends when the client leaves."""
        admitted = self._admitted(request, sentences)
        watch: asyncio.Future[Any] = asyncio.ensure_future(_gone(request))
        try:
            running: asyncio.Future[Any] = self._begin(admitted, job)
            await asyncio.wait({running, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                raise Refusal(499, "the client has gone")
            answer: Done = await running
            return answer
        finally:
            watch.cancel()
            self._leave(request, admitted)

    async def follow(
        self,
        request: Request,
        sentences: int,
        job: Callable[[], Any],
        listener: Callable[[Callable[[Any], None]], Listener],
    ) -> AsyncIterator[Any]:
        """What is told while `job` runs, then ("end", what it gives).

        The first thing is None, when there is something to tell: until then what is wrong is refused as anywhere. Later
        errors are refusals, whatever they were.
        """
        admitted, loop = self._admitted(request, sentences), asyncio.get_running_loop()
        heard: asyncio.Queue[Any] = asyncio.Queue()
        admitted.listener = listener(lambda event: _post(loop, heard, event))
        watch = asyncio.ensure_future(_gone(request))
        watch.add_done_callback(lambda _: heard.put_nowait(_END))
        try:
            running = self._begin(admitted, job)
            running.add_done_callback(lambda _: heard.put_nowait(_END))
            event = await heard.get()
            if event is _END and running.done():
                running.result()
            yield None
            while event is not _END:
                yield event
                event = await heard.get()
            if running.done():
                try:
                    done = running.result()
                except Exception as error:
                    raise _told(error) from error
                yield "end", done
        finally:
            watch.cancel()
            self._leave(request, admitted)

    def check_count(self, sentences: int) -> None:
        """Refuse more texts than one request may have."""
        if sentences > self.limits.sentences:
            raise Refusal(400, f"{sentences} texts in one request, and {self.limits.sentences} are allowed")

    def _admitted(self, request: Request, sentences: int) -> Admitted:
        self.check_count(sentences)
        request.scope["notes"]["sentences"] = sentences
        return self.scheduler.admit(max(1, sentences), request.scope["notes"].get("client", ""))

    def _begin(self, admitted: Admitted, job: Callable[[], Done]) -> asyncio.Future[Done]:
        context = contextvars.copy_context()
        context.run(REQUEST.set, admitted)
        running = asyncio.get_running_loop().run_in_executor(self._threads, context.run, job)
        running.add_done_callback(_heard)
        return running

    def _leave(self, request: Request, admitted: Admitted) -> None:
        self.scheduler.leave(admitted)
        if admitted.begun is not None:
            request.scope["notes"]["waited"] = round(admitted.begun - admitted.arrived, 4)


_END = object()


def bearer(request: Request) -> str | None:
    """The key in a request's header."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def address(request: Request) -> str:
    """The client's address, as rate limits count it."""
    return client_of(request.client.host if request.client else None)


def _heard(running: asyncio.Future[Any]) -> None:
    """What became of a job whose client has gone interests nobody: asyncio would log it at length."""
    if not running.cancelled():
        running.exception()


def _told(error: Exception) -> Refusal:
    """What a client is told of any error."""
    why = refusal(error)
    if why is None:
        log.error("a request failed", exc_info=error)
    return why or Refusal(500, INTERNAL)


def _post(loop: asyncio.AbstractEventLoop, queue: asyncio.Queue[Any], event: Any) -> None:
    """From the model's thread to the event loop; a loop that has stopped hears nothing."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(queue.put_nowait, event)


async def _gone(request: Request) -> None:
    """Returns when the client closes its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
