"""Traces as one self-contained HTML page: the viewer in web/ with its style, scripts and data inlined."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from anyorder.traces.pieces import pieces
from anyorder.traces.trace import Trace

COMPONENTS = ("cells.js", "plots.js", "panels.js", "gif.js", "export.js", "viewer.js")


def page(traces: Sequence[Trace], title: str = "anyorder") -> str:
    """The viewer's page for these traces. Those of the same source are shown side by side."""
    if not traces:
        raise ValueError("no traces to show")
    data = {"traces": [plain(trace) for trace in traces], "groups": groups(traces)}
    return shell(title, data, (_web() / "main.js").read_text("utf-8"))


def shell(title: str, data: Any, main: str, *, composer: str = "", style: str = "", policy: str = "") -> str:
    """The viewer as a page: its components, then the script `main`. `composer` is HTML before the stage.

    Only this very script and style may run or apply, whatever a text contains; nothing is fetched, unless `policy`
    allows it.
    """
    web = _web()
    style = (web / "style.css").read_text("utf-8") + style
    script = "(() => {\n" + "\n".join([*((web / name).read_text("utf-8") for name in COMPONENTS), main]) + "})();\n"
    sources = f"script-src {_hash(script)}; style-src {_hash(style)}; img-src blob: data:{policy}"
    parts = {
        "policy": f"default-src 'none'; {sources}",
        "title": html.escape(title),
        "style": style,
        "script": script,
        "composer": composer,
        "data": embedded(data),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], (web / "index.html").read_text("utf-8"))


def _web() -> Traversable:
    return files("anyorder.traces") / "web"


def groups(traces: Sequence[Trace]) -> list[dict[str, Any]]:
    """Traces of the same source (or, without one, of the same given tokens) belong side by side."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for i, trace in enumerate(traces):
        given = tuple(token for token in trace.canvas if token is not None)
        found.setdefault((trace.direction, source_text(trace), given), []).append(i)
    return [
        {
            "direction": direction,
            "source": source,
            "title": source or traces[members[0]].text or "untitled",
            "traces": members,
            "names": names([traces[i] for i in members]),
        }
        for (direction, source, _), members in found.items()
    ]


def names(traces: Sequence[Trace]) -> list[str]:
    """The recipe of each trace, numbered where one occurs more than once (an n-best list)."""
    recipes = [trace.recipe for trace in traces]
    return [r if recipes.count(r) == 1 else f"{r} {recipes[: i + 1].count(r)}" for i, r in enumerate(recipes)]


def source_text(trace: Trace) -> str | None:
    """The source as people read it: its text, or its tokens put together again."""
    if trace.source is not None or trace.source_tokens is None:
        return trace.source
    shown, text, glue = pieces(trace.source_tokens), "", True
    for token in trace.source_tokens:
        piece = shown[token]
        text += piece.text if glue or piece.joins_left else " " + piece.text
        glue = piece.joins_right
    return text


def embedded(data: Any) -> str:
    """JSON that can stand inside a <script> element: no character of it can end the element or open another."""
    text = json.dumps(_null_for_infinity(data), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def plain(trace: Trace) -> dict[str, Any]:
    """A trace as the viewer reads it, with how each of its tokens is shown."""
    seen = [token for token in (*trace.canvas, *trace.tokens) if token is not None]
    for step in trace.steps:
        seen += step.tokens
        seen += [token for row in step.alternatives or () for token, _ in row]
    shown = {
        token: {"text": p.text, "left": p.joins_left, "right": p.joins_right, "special": p.special}
        for token, p in pieces(seen).items()
    }
    return {**asdict(trace), "pieces": shown}


def _null_for_infinity(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isinf(value) else value
    if isinstance(value, dict):
        return {key: _null_for_infinity(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_null_for_infinity(v) for v in value]
    return value
