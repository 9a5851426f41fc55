"""Hostile clients and careless settings: empty keys, forged addresses, bodies made to block, clients that leave."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from anyorder.errors import UsageError
from anyorder.serve.app import create
from anyorder.serve.limits import Keys, Limits
from anyorder.serve.proxy import Proxies, client_of
from anyorder.serve.run import Background, bound
from anyorder.serve.server import Settings

ASK = {"q": "Ein Hund.", "source": "de", "target": "en"}
QUICK = 0.5  # seconds in which /health answers, on a busy machine


@contextmanager
def client(models: dict[str, Any], *names: str, host: str = "127.0.0.1", **settings: Any) -> Iterator[Any]:
    """A function that sends a request to an application in this process: (method, path, …) → response."""
    app = create({name: models[name] for name in names or ("tiny",)}, Settings(**settings))
    app.state.server.scheduler.start()

    def ask(method: str, path: str, client: tuple[str, int] = (host, 1), **more: Any) -> httpx.Response:
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(app=app, client=client)
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as one:
                return await one.request(method, path, **more)

        return asyncio.run(asked())

    try:
        yield ask
    finally:
        app.state.server.scheduler.stop()


@pytest.mark.parametrize("key", ["", " ", "two words", "schlüssel", "tab\t"])
def test_a_key_that_lets_everybody_in_or_nobody_is_refused(key: str) -> None:
    with pytest.raises(UsageError, match="key"):
        Keys(("good", key), None)


@pytest.mark.parametrize("given", [["--key", ""], []])
def test_the_command_refuses_an_empty_key(given: list[str]) -> None:
    """`--key "$UNSET"`, or a variable that is set to nothing: before a model is loaded."""
    env = os.environ | ({} if given else {"ANYORDER_KEYS": ""})
    command = [sys.executable, "-m", "anyorder", "serve", "-m", "no-such-model", "--port", "0", *given]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "key is empty" in " ".join(done.stderr.split())


# ---------------------------------------------------------------- behind a proxy


def test_forwarded_headers_count_only_from_trusted_proxies(models: dict[str, Any]) -> None:
    forged = [{"X-Forwarded-For": f"1.2.3.{n}"} for n in range(4)]
    with client(models, limits=Limits(rate=2)) as ask:
        assert [ask("POST", "/translate", json=ASK, headers=h).status_code for h in forged] == [200, 200, 429, 429]
    with client(models, limits=Limits(rate=2), proxies=("127.0.0.0/8",)) as ask:
        other = [{"X-Forwarded-For": f"6.6.6.{n}, 9.9.9.9, 127.0.0.7"} for n in range(4)]
        assert [ask("POST", "/translate", json=ASK, headers=h).status_code for h in other] == [200, 200, 429, 429]
        assert [ask("POST", "/translate", json=ASK, headers=h).status_code for h in forged] == [200] * 4
        away = [ask("POST", "/translate", client=("8.8.8.8", 1), json=ASK, headers=h).status_code for h in forged]
        assert away == [200, 200, 429, 429]  # not from the proxy


def test_the_client_is_the_last_address_that_is_no_proxy() -> None:
    proxies = Proxies(("10.0.0.0/8", "::1", "unix"))
    assert proxies.client(["6.6.6.6", "9.9.9.9", "10.1.1.1"]) == "9.9.9.9"
    assert proxies.client(["[2001:db8::1]:443"]) == "2001:db8::1" and proxies.client(["9.9.9.9:80"]) == "9.9.9.9"
    assert proxies.client(["9.9.9.9", "nonsense", "10.1.1.1"]) == "10.1.1.1" and proxies.client(["x"]) is None
    assert proxies.trust(None) and not Proxies(("10.0.0.0/8",)).trust(None) and proxies.trust("::ffff:10.0.0.1")
    assert client_of("2001:db8::1") == client_of("2001:db8::2") != client_of("2001:db8:0:1::1")
    with pytest.raises(UsageError, match="cannot trust the proxy"):
        Proxies(("localhost",))


def test_a_prefix_is_taken_off_and_known(models: dict[str, Any]) -> None:
    with client(models, root_path="/mt/") as ask:
        for path in ("/languages", "/mt/languages"):
            assert ask("GET", path).status_code == 200
        assert ask("GET", "/openapi.json").json()["servers"] == [{"url": "/mt"}]
    with client(models, proxies=("127.0.0.1",)) as ask:
        headers = {"X-Forwarded-Prefix": "/a/b"}
        assert ask("GET", "/a/b/languages", headers=headers).status_code == 200
        assert ask("GET", "/openapi.json", headers=headers).json()["servers"] == [{"url": "/a/b"}]
        assert ask("GET", "/a/b/languages", client=("8.8.8.8", 1), headers=headers).status_code == 404


def test_a_page_names_no_absolute_address(models: dict[str, Any]) -> None:
    with client(models) as ask:
        for path in ("/", "/docs"):
            text = ask("GET", path).text
            assert not any(mark in text for mark in ('post("/', 'href="/', 'src="/', "url: '/"))
        assert ask("GET", "/docs/swagger-ui.css").status_code == ask("GET", "/docs/swagger-ui-bundle.js").status_code


def test_meters_need_a_key_unless_the_server_says_otherwise(models: dict[str, Any]) -> None:
    for settings, status in (({}, 401), ({"open_metrics": True}, 200)):
        with client(models, keys=("secret",), **settings) as ask:
            assert ask("GET", "/metrics").status_code == status
            assert ask("GET", "/metrics", headers={"Authorization": "Bearer secret"}).status_code == 200
            assert ask("GET", "/health").status_code == 200


# ---------------------------------------------------------------- bodies


BODIES = {
    "texts to score": ("/v1/score", {"model": "bert", "texts": ["a"] * 200_000}),
    "inputs to fill": ("/models/bert", {"inputs": ["[MASK]"] * 100_000}),
    "a canvas of numbers": ("/v1/trace", {"text": "a", "to": "en", "canvas": [1] * 300_000}),
    "unknown fields": ("/v1/fill", {"text": "[MASK]"} | {f"f{n}": 1 for n in range(80_000)}),
    "long texts": ("/v1/score", {"model": "bert", "texts": ["the cat " * 624] * 64}),
    "lines": ("/translate", ASK | {"q": ["\n" * 4900] * 64}),
    "messages": ("/v1/chat/completions", {"model": "tiny", "messages": [{"role": "user", "content": "a"}] * 25_000}),
    "brackets": ("/v1/infill", {"model": "bert", "text": "{}" * 2400}),
    "a number": ("/v1/fill", {"model": "bert", "text": "[MASK]", "n": 10**4000}),
}  # fmt: skip


def test_no_body_keeps_others_waiting(url: str) -> None:
    """While one client sends what it may, /health answers at once."""
    took: list[float] = []
    with httpx.Client(base_url=url, timeout=60) as sending, httpx.Client(base_url=url, timeout=60) as watching:
        watching.get("/health")
        for name, (path, body) in BODIES.items():
            data = json.dumps(body)
            assert len(data) <= 1 << 20, name
            answers: list[httpx.Response] = []
            headers = {"Content-Type": "application/json"}
            sender = Thread(target=lambda: answers.append(sending.post(path, content=data, headers=headers)))  # noqa: B023
            sender.start()
            while sender.is_alive():
                begun = time.monotonic()
                assert watching.get("/health").status_code == 200
                took.append(time.monotonic() - begun)
                assert took[-1] < QUICK, (name, took[-1])
            assert answers[0].status_code in (400, 413), (name, answers[0].text[:200])
            assert len(answers[0].text) < 5000, name


def test_a_client_that_leaves_while_its_body_is_read_is_no_error(models: dict[str, Any], caplog: Any) -> None:
    with caplog.at_level("INFO", "anyorder.serve"), Background(create({"tiny": models["tiny"]})) as url:
        host, port = url.removeprefix("http://").split(":")
        for path in ("/translate", "/v1/fill"):
            with socket.create_connection((host, int(port)), timeout=10) as raw:
                raw.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{".encode())
                time.sleep(0.05)
        assert httpx.get(f"{url}/health").status_code == 200
        end = time.monotonic() + 10
        while sum("fields" in vars(record) for record in caplog.records) < 3:
            assert time.monotonic() < end
            time.sleep(0.01)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    assert [r.fields["status"] for r in caplog.records if hasattr(r, "fields")].count(499) == 2


# ---------------------------------------------------------------- sockets, examples of deployment


def test_a_unix_socket_answers(folders: Path, tmp_path: Path) -> None:
    path = tmp_path / "server.sock"
    behind = ["--uds", path, "--trust-proxy", "unix", "--rate", "1"]
    command = [sys.executable, "-m", "anyorder", "serve", "-m", folders / "tiny", *behind]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None and f"unix:{path}" in process.stderr.readline()
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://server", timeout=60) as one:
            codes = [
                one.post("/translate", json=ASK, headers={"X-Forwarded-For": address}).status_code
                for address in ("1.1.1.1", "2.2.2.2", "1.1.1.1")
            ]
        process.terminate()
        log = process.stderr.read()
    assert codes == [200, 200, 429] and process.returncode == 0 and "Traceback" not in log
    assert not path.exists()


def test_a_socket_in_use_or_a_file_is_not_replaced(tmp_path: Path) -> None:
    from anyorder.serve.run import unix

    path = tmp_path / "taken"
    path.write_text("mine")
    with pytest.raises(UsageError, match="cannot listen"):
        unix(str(path))
    assert path.read_text() == "mine"
    left = unix(str(tmp_path / "left"))
    left.close()
    with unix(str(tmp_path / "left")) as again:
        again.listen()
        with pytest.raises(UsageError, match="cannot listen"):
            unix(str(tmp_path / "left"))
    bound("127.0.0.1", 0).close()


@pytest.mark.parametrize("name", ["anyorder.service", "compose.yaml"])
def test_the_examples_of_deployment_give_options_that_there_are(name: str) -> None:
    command, wide = [sys.executable, "-m", "anyorder", "serve", "--help"], os.environ | {"COLUMNS": "200"}
    known = subprocess.run(command, capture_output=True, text=True, timeout=60, env=wide, check=True).stdout
    text = (Path(__file__).parents[2] / "deploy" / name).read_text("utf-8")
    (line,) = [one for one in text.splitlines() if "--trust-proxy" in one]
    options = re.findall(r"--[a-z-]+", line)
    assert len(options) >= 3 and all(option in known for option in options), options
