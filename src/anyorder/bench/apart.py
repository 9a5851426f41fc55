"""A side in a process of its own: libraries that share one disturb each other.

Where CTranslate2 is merely loaded, torch on two threads takes a third longer; and its threads are busy for a while
after they are done, so the process is stopped while others have their turn.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import torch

from anyorder.machine import end_with_parent

Run = Callable[[Any], Any]


@contextmanager
def apart(make: Callable[..., Run], *arguments: Any) -> Iterator[Run]:
    """The function that make(*arguments) gives there, with as many threads as here; it ends with the block."""
    context = multiprocessing.get_context("spawn")  # no thread is copied
    here, there = context.Pipe()
    process = context.Process(target=_work, args=(there, torch.get_num_threads(), make, arguments), daemon=True)
    process.start()
    there.close()
    try:
        here.recv()  # it is ready
        assert process.pid is not None
        pid = process.pid
        os.kill(pid, signal.SIGSTOP)

        def run(asked: Any) -> Any:
            os.kill(pid, signal.SIGCONT)
            here.send(asked)
            answer = here.recv()
            os.kill(pid, signal.SIGSTOP)
            return answer

        yield run
    finally:
        if process.pid is not None and process.is_alive():
            os.kill(process.pid, signal.SIGCONT)
        here.close()
        process.join()


def _work(pipe: Connection, threads: int, make: Callable[..., Run], arguments: tuple[Any, ...]) -> None:
    end_with_parent()
    torch.set_num_threads(threads)
    run = make(*arguments)
    pipe.send(None)
    while True:
        try:
            asked = pipe.recv()
        except EOFError:
            return
        pipe.send(run(asked))
