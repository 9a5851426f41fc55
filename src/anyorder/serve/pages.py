"""The pages: a playground made of the viewer's own components, and the documentation. Nothing comes from elsewhere."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.responses import HTMLResponse, Response

from anyorder import recipes
from anyorder.serve.documents import document, example
from anyorder.serve.server import Server
from anyorder.text.translator import Translator
from anyorder.text.writing import FORWARDS
from anyorder.traces.page import shell

FAMILIES = ("mask-predict(4)", "constant-time(4)", "semi-autoregressive(2)", "refinement(4)", "wino", "fast-dllm(0.9)")
SHEETS = {"Cache-Control": "no-cache", "X-Frame-Options": "DENY"}


def routes(server: Server, app: FastAPI) -> APIRouter:
    """`/` and `/docs`."""
    router = APIRouter(include_in_schema=False)
    made = playground(server)

    @router.get("/")
    async def page() -> Response:
        return HTMLResponse(made, headers=SHEETS)

    @router.get("/docs")
    async def docs() -> Response:
        data = {"groups": [], "traces": [], "paths": _paths(document(app)), "about": app.description.replace("`", ""),
                "model": next(iter(server.models))}  # fmt: skip
        return HTMLResponse(
            shell("anyorder · API", data, _web("docs.js"), composer=_web("docs.html"), style=_web("docs.css"),
                  policy="; connect-src 'self'"),
            headers=SHEETS,
        )  # fmt: skip

    return router


def playground(server: Server) -> str:
    """The page to play with."""
    models = [
        {"name": name, "languages": list(model.languages) if isinstance(model, Translator) else [],
         "causal": isinstance(model, Translator) and model.causal,
         "forwards": isinstance(model, Translator) and not model.causal and hasattr(model.model, FORWARDS)}
        for name, model in server.models.items()
    ]  # fmt: skip
    data = {"groups": [], "traces": [], "models": models, "keyed": server.keys.needed,
            "orders": [*recipes.STRATEGIES, *FAMILIES], "families": list(recipes.FAMILIES)}  # fmt: skip
    return shell(
        "anyorder", data, _web("playground.js"), composer=_web("composer.html"), style=_web("playground.css"),
        policy="; connect-src 'self'",
    )  # fmt: skip


def _web(name: str) -> str:
    return (files("anyorder.serve") / "web" / name).read_text("utf-8")


def _paths(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Every path as the documentation shows it."""
    out = []
    for path, methods in found["paths"].items():
        for method, one in methods.items():
            content = one.get("requestBody", {}).get("content", {})
            schema = next(iter(content.values()))["schema"] if content else None
            while schema is not None and "$ref" in schema:
                schema = found["components"]["schemas"][schema["$ref"].split("/")[-1]]
            fields = [
                {"name": name, "kind": _kind(field), "needed": name in schema.get("required", ()),
                 "what": field.get("description", "")}
                for name, field in sorted(schema["properties"].items(), key=lambda item: not item[1].get("examples"))
            ] if schema else []  # fmt: skip
            out.append({
                "path": path, "method": method.upper(), "tag": one["tags"][0], "what": one.get("description", ""),
                "fields": fields, "example": example(found, schema) if schema else None,
            })  # fmt: skip
    return out


def _kind(field: dict[str, Any]) -> str:
    """The type of a field, for people."""
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(k for one in field["anyOf"] if (k := _kind(one)) != "null"))
    if "$ref" in field:
        return "object"
    if "enum" in field or "const" in field:
        return " or ".join(f'"{v}"' for v in field.get("enum", [field.get("const")]))
    if field.get("type") == "array":
        return f"list of {_kind(field.get('items', {}))}"
    return str(field.get("type", "anything"))
