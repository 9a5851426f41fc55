"""Running a server: a socket, signals that let it finish what it has begun, and log lines."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from pathlib import Path
from types import FrameType
from typing import NoReturn

import torch
import uvicorn
from fastapi import FastAPI

from anyorder.errors import UsageError
from anyorder.machine import cores
from anyorder.serve.app import create
from anyorder.serve.gate import Lines
from anyorder.serve.process import Worker
from anyorder.serve.server import Server, Settings
from anyorder.text.load import Model

DRAINING = 30.0  # seconds that a server which stops waits for what it has begun
STREAMS = 3.0  # seconds that connections which stay open have after that
PAUSE = 0.05
STOPPING = (signal.SIGINT, signal.SIGTERM)
FORWARDED = signal.SIGUSR1  # how the first process tells the one that speaks HTTP of a signal
SWITCH = 0.0005  # seconds after which a busy thread of Python gives way: a step waits for HTTP that many times


class Listening(uvicorn.Server):
    """A server whose first signal lets nobody new in and finishes what it has; a second one stops it."""

    def __init__(self, app: FastAPI) -> None:
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="on", server_header=False, date_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=int(STREAMS), timeout_keep_alive=30, h11_max_incomplete_event_size=64 << 10,
        )  # fmt: skip
        super().__init__(config)
        sys.setswitchinterval(SWITCH)
        self.served: Server = app.state.server
        self._since: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """First signal: drain. Second: stop."""
        if self._since is None:
            self._since = time.monotonic()
            self.served.scheduler.draining = True
        else:
            self.should_exit = self.force_exit = True
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what breaks off now was meant to

    async def on_tick(self, counter: int) -> bool:
        """Every tenth of a second: stop once everything that was begun is done."""
        if self._since is not None and not self.should_exit:
            late = time.monotonic() - self._since > DRAINING
            self.should_exit = late or not self.served.scheduler.held
        return await super().on_tick(counter)


class Led(Listening):
    """A server whose signals come from the first process: those that a supervisor sends to both are ignored."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Instead of uvicorn's handlers: none."""
        yield


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes any that is free."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot listen on {host}, port {port}: {why}; choose another --port or --host") from None
    return made


def threads() -> int:
    """Threads that a model computes with: one core is left to HTTP, or each waits for the other."""
    return max(1, min(torch.get_num_threads(), cores() - 1))


def settle() -> None:
    """What is there now stays: looking for garbage in it would hold up everybody for tenths of a second."""
    gc.collect()
    gc.freeze()


def unix(path: str) -> socket.socket:
    """A Unix socket that listens, for the owner and the group; one that a server left behind is replaced."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if Path(path).is_socket() and not _answers(path):
            Path(path).unlink()
        made.bind(path)
        os.chmod(path, 0o660)
    except OSError as error:
        raise UsageError(f"cannot listen on {path}: {error.strerror or error}; choose another --uds") from None
    return made


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        return asking.connect_ex(path) == 0


def serve(models: Mapping[str, Model], settings: Settings, sock: socket.socket) -> None:
    """Serve until a signal says stop."""
    torch.set_num_threads(threads())
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    for name in ("anyorder.serve", "uvicorn.error"):
        log = logging.getLogger(name)
        log.handlers, log.propagate = [handler], False
    logging.getLogger("anyorder.serve").setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    if not apart():
        app = create(models, settings)
        settle()
        Listening(app).run(sockets=[sock])
        return
    here, there = Pipe()
    app = create(models, settings, there)
    settle()
    signal.pthread_sigmask(signal.SIG_BLOCK, [*STOPPING, FORWARDED])  # until both processes have their handlers
    http = os.fork()
    if http == 0:
        here.close()
        _listen(app, sock)
    there.close()
    sock.close()

    def forward(*_: object) -> None:
        with suppress(ProcessLookupError):  # it has ended already
            os.kill(http, FORWARDED)

    for number in STOPPING:
        signal.signal(number, forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [*STOPPING, FORWARDED])
    Worker(settings.limits, settings.budget, app.state.server.models, here).run()
    here.close()
    ended = os.waitstatus_to_exitcode(os.waitpid(http, 0)[1])
    if ended:
        raise SystemExit(1)


def apart() -> bool:
    """Can the model be in a process of its own? Where a process can be forked, and no accelerator is at work."""
    return sys.platform == "linux" and not torch.cuda.is_available()


def _listen(app: FastAPI, sock: socket.socket) -> NoReturn:
    """Be the process that speaks HTTP; what the first one is told to do, this one hears from it, and from it alone.

    A terminal and most supervisors signal both: heard twice, that would be a second signal.
    """
    code = 1
    try:
        torch.set_num_threads(1)
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads were not forked
        listening = Led(app)
        signal.signal(FORWARDED, listening.handle_exit)
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [*STOPPING, FORWARDED])
        listening.run(sockets=[sock])
        code = 0
    finally:
        os._exit(code)


class Background:
    """A server on a thread of this process, for tests and measurements: `with Background(app) as url`."""

    def __init__(self, app: FastAPI) -> None:
        self.server, self.sock = Listening(app), bound("127.0.0.1", 0)
        self.thread = threading.Thread(
            target=lambda: asyncio.run(self.server.serve(sockets=[self.sock])), name="http", daemon=True
        )

    def __enter__(self) -> str:
        self.thread.start()
        while not self.server.started:
            if not self.thread.is_alive():
                raise RuntimeError("the server did not start")
            time.sleep(PAUSE)
        return f"http://127.0.0.1:{self.sock.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self.server.handle_exit(signal.SIGTERM, None)
        self.thread.join(timeout=DRAINING)
