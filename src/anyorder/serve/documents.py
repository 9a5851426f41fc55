"""The OpenAPI document: every path with an example that runs, and the refusals in their own shape."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from anyorder.serve.answers import PLAIN

REFUSALS = {"400": "Something that cannot be; the message says what.", "401": "No key, or a wrong one.",
            "413": "Too much at once.", "429": "Asked too often; see Retry-After.",
            "503": "Too much to do, or stopping; see Retry-After.", "504": "Not done in time."}  # fmt: skip


def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document: FastAPI's own, with our refusals for its 422."""
    if app.openapi_schema is None:
        from fastapi.openapi.utils import get_openapi

        made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = made.setdefault("components", {}).setdefault("schemas", {})
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        for path, methods in made["paths"].items():
            for one in methods.values():
                one["responses"].pop("422", None)
                if "requestBody" in one:
                    for kind in one["requestBody"]["content"].values():
                        kind["example"] = example(schemas, kind["schema"])
                    one["responses"] |= {code: _refusal(path, what) for code, what in REFUSALS.items()}
        app.openapi_schema = made
    return app.openapi_schema


def _refusal(path: str, what: str) -> dict[str, Any]:
    text = {"type": "string"}
    parts = {"message": text, "type": text, "param": {"type": ["string", "null"]}, "code": {"type": ["string", "null"]}}
    error: dict[str, Any] = text if path.startswith(PLAIN) else {"type": "object", "properties": parts}
    schema = {"type": "object", "properties": {"error": error}, "required": ["error"]}
    return {"description": what, "content": {"application/json": {"schema": schema}}}


def example(schemas: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The example of a request: its fields that have one."""
    while "$ref" in schema:
        schema = schemas[schema["$ref"].split("/")[-1]]
    return {name: f["examples"][0] for name, f in schema.get("properties", {}).items() if f.get("examples")}
