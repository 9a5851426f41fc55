"""Fuzzed requests: a few here, more by `python tests/serve_fuzz.py URL 10000`. Bytes that are no request, too."""

from __future__ import annotations

import json

import httpx
import pytest
from serve_fuzz import fuzz


@pytest.mark.parametrize("seed", [1, 2])
def test_no_request_breaks_the_server(client: httpx.Client, seed: int) -> None:
    seen = fuzz(client, seed, 60)
    assert seen.get(200, 0) > 3 and seen.get(400, 0) > 3, seen
    assert client.get("/health").status_code == 200


@pytest.mark.parametrize("path", ["/translate", "/v1/completions", "/v1/stream", "/models/bert"])
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b"[" * 20_000, b'{"q": NaN}', b'{"q": "\\ud800", "target": "en"}', b"null", b"[]", b'"x"'],
    ids=lambda body: repr(body[:12]),
)
def test_bytes_that_are_no_request(client: httpx.Client, path: str, body: bytes) -> None:
    answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400, answer.text
    json.dumps(answer.json())
