"""Running a server: health, refusals under load, keys, clients that go away, a broken model, signals."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

import anyorder
from anyorder.serve.app import create
from anyorder.serve.limits import Limits
from anyorder.serve.run import Background
from anyorder.serve.server import Settings
from anyorder.traces.trace import to_lines

ASK = {"q": "Ein Hund läuft am Strand.", "source": "de", "target": "en"}


@contextmanager
def served(models: dict[str, Any], **settings: Any) -> Iterator[tuple[str, Any]]:
    app = create({"tiny": models["tiny"]}, Settings(**settings))
    with Background(app) as url:
        yield url, app.state.server


@contextmanager
def slow(server: Any, seconds: float = 0.05) -> Iterator[None]:
    """Every step of the model takes longer."""
    model = server.models["tiny"].model
    quick = model.hidden

    def hidden(*args: Any) -> Any:
        time.sleep(seconds)
        return quick(*args)

    model.hidden = hidden
    try:
        yield
    finally:
        del model.hidden


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def test_alive_ready_and_measured(client: httpx.Client) -> None:
    assert client.get("/health").status_code == client.get("/ready").status_code == 200
    client.post("/translate", json=ASK)
    said = client.get("/metrics").text
    for name in ("requests_total", "request_seconds", "queue_sentences", "batch_rows", "steps_total", "tokens_total"):
        assert f"anyorder_{name}" in said
    assert 'anyorder_requests_total{route="/translate",status="200"}' in said


def test_a_full_queue_refuses_at_once_and_says_when_to_come_again(models: dict[str, Any]) -> None:
    with served(models, limits=Limits(queue=4)) as (url, server), slow(server):
        with ThreadPoolExecutor(12) as pool:
            begun = time.monotonic()
            answers = list(pool.map(lambda _: httpx.post(f"{url}/translate", json=ASK, timeout=60), range(12)))
        refused = [a for a in answers if a.status_code == 503]
        assert {a.status_code for a in answers} == {200, 503} and len(refused) >= 4
        assert all(int(a.headers["retry-after"]) >= 1 and "error" in a.json() for a in refused)
        assert max(a.elapsed.total_seconds() for a in refused) < 0.5 * (time.monotonic() - begun) + 0.5
        until(lambda: server.scheduler.held == 0)
        assert httpx.post(f"{url}/translate", json=ASK, timeout=60).status_code == 200


def test_a_shut_door_reads_nothing_and_says_so_in_the_log(models: dict[str, Any], caplog: Any) -> None:
    with served(models, limits=Limits(queue=1)) as (url, server), httpx.Client(base_url=url) as client:
        ticket = server.scheduler.admit(1, "127.0.0.1")
        with caplog.at_level("INFO", "anyorder.serve"):
            for path in ("/translate", "/v1/stream"):
                answer = client.post(path, content=b"no JSON")
                assert answer.status_code == 503 and int(answer.headers["retry-after"]) >= 1
            until(lambda: len(caplog.records) == 2)
        assert [record.fields["route"] for record in caplog.records] == ["/translate", "/v1/stream"]
        assert client.get("/languages").status_code == client.get("/health").status_code == 200
        server.scheduler.leave(ticket)
        assert client.post("/translate", content=b"no JSON").status_code == 400


def test_one_request_does_not_lock_the_others_out(models: dict[str, Any]) -> None:
    """A request that takes longer than the deadline is refused at once; beside a long one others are answered."""
    long = {"q": "Ein Hund läuft am Strand im Garten.", "order": "easy-first", "lengths": 8, "beam": 8}
    with served(models, limits=Limits(deadline=3.0)) as (url, server):
        until(lambda: len(server.scheduler.paces) >= 2)
        with slow(server, 0.02), httpx.Client(base_url=url, timeout=60) as client:
            server.scheduler.expected = lambda size: 0.0  # as if nothing were known: the long one is let in
            with ThreadPoolExecutor(1) as pool:
                under_way = pool.submit(httpx.post, f"{url}/translate", json=ASK | long, timeout=60)
                until(lambda: server.scheduler.held == 1)
                answers = [client.post("/translate", json=ASK | {"lengths": 1}) for _ in range(4)]
                assert [a.status_code for a in answers] == [200] * 4
                assert max(a.elapsed.total_seconds() for a in answers) < 2.5
                assert under_way.result().status_code in (200, 504), under_way.result().text
            del server.scheduler.expected
            for pace in server.scheduler.paces.values():
                pace._each = {10: 0.01}  # seconds for each token: a slow model
            begun = time.monotonic()
            answer = client.post("/translate", json=ASK | long)
            assert answer.status_code == 400 and "a request may take 3" in answer.json()["error"]
            assert time.monotonic() - begun < 1


def test_a_request_larger_than_the_queue_is_taken_when_nobody_waits(models: dict[str, Any]) -> None:
    with served(models, limits=Limits(queue=2)) as (url, _):
        assert httpx.post(f"{url}/translate", json=ASK | {"q": ["Ein Hund."] * 5}, timeout=60).status_code == 200


def test_a_deadline_ends_a_request_and_frees_its_rows(models: dict[str, Any]) -> None:
    with served(models, limits=Limits(deadline=0.3)) as (url, server), slow(server, 0.1):
        answer = httpx.post(f"{url}/translate", json=ASK, timeout=60)
        assert answer.status_code == 504 and "0.3 seconds" in answer.json()["error"]
        until(lambda: not server.scheduler._groups and server.scheduler.held == 0)


def test_a_client_that_goes_away_frees_its_rows(models: dict[str, Any]) -> None:
    with served(models) as (url, server), slow(server, 0.1):
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{url}/translate", json=ASK, timeout=0.3)
        until(lambda: not server.scheduler._groups and server.scheduler.held == 0, 2)
        with httpx.stream("POST", f"{url}/v1/stream", json={"text": ASK["q"], "to": "en"}, timeout=60) as stream:
            next(stream.iter_lines())
            assert server.scheduler._groups
        until(lambda: not server.scheduler._groups and server.scheduler.held == 0, 2)


def test_keys_and_rates(models: dict[str, Any]) -> None:
    with served(models, keys=("one", "zwei"), limits=Limits(rate=3)) as (url, _), httpx.Client(base_url=url) as client:
        none = client.post("/translate", json=ASK)
        wrong = client.post("/translate", json=ASK | {"api_key": "ein"})
        assert none.status_code == wrong.status_code == 401 and none.headers["www-authenticate"] == "Bearer"
        stream = client.post("/v1/stream", json={"text": "Ein Hund.", "to": "en"})
        assert stream.status_code == 401 and stream.json()["error"]["code"] == "invalid_api_key"
        header = {"Authorization": "Bearer zwei"}
        codes = [client.post("/translate", json=ASK, headers=header).status_code for _ in range(4)]
        assert codes == [200, 200, 200, 429]
        late = client.post("/translate", json=ASK, headers=header)
        assert late.status_code == 429 and int(late.headers["retry-after"]) >= 1
        assert client.post("/translate", json=ASK | {"api_key": "one"}).status_code == 200  # another key's own rate
        assert client.get("/health").status_code == 200  # whoever watches needs no key


def test_a_broken_model_is_the_fault_of_nobody_else(models: dict[str, Any]) -> None:
    """Rows on which the model fails: their request is told 500, those beside it are answered, the server lives on."""
    with served(models) as (url, server):
        model = server.models["tiny"].model
        whole = model.encode

        def broken(source: Any) -> Any:
            context, long = whole(source), (source.tokens != model.pad_id).sum(-1) > 20
            return replace(context, embedded=context.embedded.masked_fill(long[:, None, None], float("nan")))

        good, bad = ASK | {"q": "Zwei Kinder"}, ASK | {"q": "Ein Hund läuft am Strand im Garten."}
        alone = httpx.post(f"{url}/translate", json=good, timeout=60).json()
        model.encode = broken
        try:
            with ThreadPoolExecutor(4) as pool:
                asks = [good, bad, good, good]
                answers = list(pool.map(lambda ask: httpx.post(f"{url}/translate", json=ask, timeout=60), asks))
        finally:
            del model.encode
        assert [a.status_code for a in answers] == [200, 500, 200, 200]
        assert [a.json() for a in answers if a.status_code == 200] == [alone] * 3
        assert answers[1].json() == {"error": "the model could not answer this request; the server's log says why"}
        assert httpx.post(f"{url}/translate", json=bad, timeout=60).status_code == 200


def test_bodies_are_bounded_in_size_and_time(models: dict[str, Any]) -> None:
    with served(models, limits=Limits(body=1000, deadline=1.0)) as (url, _):
        assert httpx.post(f"{url}/translate", content=b"x" * 2000).status_code == 413

        def chunks() -> Iterator[bytes]:
            yield from [b"x" * 400] * 4

        assert httpx.post(f"{url}/translate", content=chunks()).status_code == 413
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as raw:
            raw.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            assert b" 408 " in raw.recv(1000).split(b"\r\n")[0]


def test_other_sites_may_not_ask_unless_told(models: dict[str, Any]) -> None:
    asked = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
    for origins, allowed in (((), None), (("https://example.org",), "https://example.org")):
        with served(models, origins=origins) as (url, _):
            answer = httpx.options(f"{url}/translate", headers=asked)
            assert answer.headers.get("access-control-allow-origin") == allowed


# ---------------------------------------------------------------- the command itself


@contextmanager
def started(*args: str | Path) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """`anyorder serve` in a process of its own: (process, address, its log lines so far)."""
    command = [sys.executable, "-m", "anyorder", "serve", "--port", "0", *map(str, args)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    first = process.stderr.readline()
    assert " at http://" in first, first
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
    reader.start()
    url = first.split(" at ")[1].split()[0]

    def there() -> bool:
        try:
            return httpx.get(f"{url}/ready").status_code == 200
        except httpx.TransportError:
            return False

    try:
        until(there, 60)
        yield process, url, lines
    finally:
        process.kill()
        process.wait()
        reader.join()


@pytest.mark.parametrize("everybody", [False, True])  # a supervisor may signal both processes
def test_the_command_answers_drains_and_leaves_with_a_line_a_request(folders: Path, everybody: bool) -> None:
    with started("-m", folders / "tiny") as (process, url, lines):
        assert url.startswith("http://127.0.0.1:")
        many = {"q": ["Ein Hund läuft am Strand im Garten."] * 40, "source": "de", "target": "en", "beam": 4}
        assert httpx.post(f"{url}/translate", json=ASK, timeout=60).status_code == 200
        with ThreadPoolExecutor(1) as pool:
            under_way = pool.submit(httpx.post, f"{url}/translate", json=many, timeout=60)
            until(lambda: "anyorder_queue_sentences 40.0" in httpx.get(f"{url}/metrics").text)
            (http,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            if everybody:
                os.kill(int(http), signal.SIGTERM)
            process.send_signal(signal.SIGTERM)
            with suppress(httpx.TransportError):  # it leaves as soon as it has answered
                until(lambda: under_way.done() or httpx.get(f"{url}/ready").status_code == 503)
                assert httpx.post(f"{url}/translate", json=ASK, timeout=60).status_code == 503
            assert under_way.result().status_code == 200
        assert process.wait(20) == 0
    records = [json.loads(line) for line in lines]  # nor a traceback
    asked = [r for r in records if r.get("route") == "/translate"]
    assert asked[0]["status"] == 200 and asked[0]["sentences"] == 1 and asked[0]["seconds"] > 0
    assert all("Hund" not in line for line in lines), "texts do not belong into the log"


def test_a_second_signal_stops_at_once(folders: Path) -> None:
    with started("-m", folders / "tiny") as (process, url, lines), ThreadPoolExecutor(1) as pool:
        many = {"q": ["Ein Hund läuft am Strand im Garten."] * 64, "source": "de", "target": "en", "beam": 8}
        pool.submit(httpx.post, f"{url}/translate", json=many, timeout=60)
        until(lambda: "anyorder_queue_sentences 64.0" in httpx.get(f"{url}/metrics").text)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.wait(20)
        time.sleep(0.3)
        assert not [line for line in lines if "Traceback" in line], "what was asked for is no error"


def test_all_that_is_asked_crosses_to_the_models_process_and_back(folders: Path) -> None:
    """Texts, steps as they are taken, traces, scores, fillings and refusals are what the library gives."""
    library = anyorder.load(folders / "tiny")
    with started("-m", folders / "tiny") as (_, url, _), httpx.Client(base_url=url, timeout=60) as client:
        alone = library.translate(ASK["q"], "en", source="de").text
        assert client.post("/translate", json=ASK).json() == {"translatedText": alone}
        drawn = {"temperature": 1.0, "seed": 3, "lengths": 2, "beam": 1, "order": "uniform"}
        found = library.translate(ASK["q"], "en", source="de", **drawn).text
        assert client.post("/translate", json=ASK | drawn).json() == {"translatedText": found}
        trace = library.trace(ASK["q"], "en", source="de", lengths=1)
        ask = {"text": ASK["q"], "from": "de", "to": "en", "lengths": 1}
        assert client.post("/v1/trace", json=ask).text.splitlines() == list(to_lines(trace))
        events = [line for line in client.post("/v1/stream", json=ask).text.splitlines() if line.startswith("event: ")]
        assert events == ["event: begin", *["event: step"] * len(trace.steps), "event: end"]
        score = {"texts": ["A dog."], "sources": [ASK["q"]], "to": "en"}
        assert client.post("/v1/score", json=score).status_code == 200
        assert client.post("/translate", json=ASK | {"order": "negent + nothing"}).status_code == 400
        assert "anyorder_steps_total" in client.get("/metrics").text


def test_no_process_outlives_the_other(folders: Path) -> None:
    with started("-m", folders / "tiny") as (process, url, _):
        (http,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        until(lambda: not Path(f"/proc/{http}").exists() or ") Z " in Path(f"/proc/{http}/stat").read_text())
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{url}/health", timeout=5)
    with started("-m", folders / "tiny") as (process, _, _):
        (http,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(http), signal.SIGKILL)
        assert process.wait(20) == 1
