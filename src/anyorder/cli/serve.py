"""`anyorder serve`: any-order generation over HTTP."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from anyorder.cli import _options as o
from anyorder.cli._terminal import visible
from anyorder.errors import UsageError, extra

_DOOR, _PROXY, _MOST = "Clients", "Behind a proxy", "Limits"

VARIABLE = "ANYORDER_KEYS"


@o.options(loads=("translation", "language"))
def serve(
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model", "-m", help="A model's folder or name; give several to serve them all. [default: de-en]"
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes one that is free.", min=0, max=65535)] = 8000,
    key: Annotated[
        list[str] | None,
        typer.Option(
            envvar=VARIABLE,
            help="A key that clients must send; give several for several clients.",
            rich_help_panel=_DOOR,
        ),
    ] = None,
    open_metrics: Annotated[
        bool, typer.Option("--open-metrics", help="Let /metrics be read without a key.", rich_help_panel=_DOOR)
    ] = False,
    rate: Annotated[
        int | None,
        typer.Option(
            min=1, help="Requests a minute for each key, or each address. [default: any]", rich_help_panel=_DOOR
        ),
    ] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option(
            help="Another site whose pages may ask (CORS), such as https://example.org.", rich_help_panel=_DOOR
        ),
    ] = None,
    uds: Annotated[
        str | None,
        typer.Option(help="Listen on this Unix socket instead of an address, for a proxy.", rich_help_panel=_PROXY),
    ] = None,
    trust_proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="A proxy whose X-Forwarded-For, -Proto and -Prefix are read: an address, a network, or unix (--uds). "
            "[default: none]",
            rich_help_panel=_PROXY,
        ),
    ] = None,
    root_path: Annotated[
        str, typer.Option(help="Path under which a proxy shows the server, such as /translate.", rich_help_panel=_PROXY)
    ] = "",
    queue: Annotated[
        int, typer.Option(min=1, help="Sentences waiting or being written; beyond it 503.", rich_help_panel=_MOST)
    ] = 96,
    deadline: Annotated[
        float, typer.Option(min=0.1, help="Seconds that a request may take.", rich_help_panel=_MOST)
    ] = 60.0,
    sentences: Annotated[int, typer.Option(min=1, help="Sentences in one request.", rich_help_panel=_MOST)] = 64,
    budget: Annotated[
        int, typer.Option(min=1, help="Tokens in one batch, padding included.", rich_help_panel=_MOST)
    ] = 1024,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Write texts into the log.")] = False,
    **loading: Any,
) -> None:
    """Serve models over HTTP: for clients of LibreTranslate and OpenAI, curl, and as a page to play with.

    Sentences of all requests share batches, which they join and leave at every step. Stop it with Ctrl-C: it finishes
    what it has begun.

    Example: anyorder serve

    Example: anyorder serve -m de-en -m path/to/a-bert --port 8080 --key secret --rate 600
    """
    with extra("serve"):
        from anyorder.serve import run
        from anyorder.serve.limits import Limits
        from anyorder.serve.server import Settings
    from anyorder.text.load import load

    names = model or ["de-en"]
    limits = Limits(queue=queue, deadline=deadline, rate=rate, sentences=sentences)
    settings = Settings(
        limits, _keys(key), tuple(origin or ()), tuple(trust_proxy or ()), root_path, open_metrics, log_texts, budget
    ).check()
    sock = run.bound(host, port) if uds is None else run.unix(uds)
    models = {}
    for name in names:
        known = name.rstrip("/").split("/")[-1]
        if known in models:
            raise UsageError(f"two models are called {known!r}: rename a folder, or serve them apart")
        models[known] = load(name, **{option: value for option, value in loading.items() if value})
    sock.listen()  # whoever asks from now on waits until it runs
    if uds is None:
        url = f"http://{f'[{host}]' if ':' in host else host}:{sock.getsockname()[1]}"
        where = f"{url} (docs: {url}/docs)"
    else:
        where = visible(f"unix:{uds}")
    print(f"anyorder: {visible(', '.join(models))} at {where}; Ctrl-C stops", file=sys.stderr)
    if not settings.keys and uds is None and host not in ("127.0.0.1", "localhost", "::1"):
        print("anyorder: anyone who can reach this address may ask: set --key, or listen on 127.0.0.1", file=sys.stderr)
    try:
        run.serve(models, settings, sock)
    finally:
        if uds is not None:
            Path(uds).unlink(missing_ok=True)


def _keys(given: list[str] | None) -> tuple[str, ...]:
    """The keys; a variable that is set and empty was meant to have some."""
    if not given and os.environ.get(VARIABLE) is not None:
        return ("",)
    return tuple(given or ())
