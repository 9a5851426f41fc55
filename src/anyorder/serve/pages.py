"""The pages: a playground made of the viewer's own components, and Swagger UI. Every file is in the package."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files

from fastapi import APIRouter, FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import HTMLResponse, Response

from anyorder import recipes
from anyorder.serve.refusal import Refusal
from anyorder.serve.server import Server
from anyorder.traces.page import shell

FAMILIES = ("mask-predict(4)", "constant-time(4)", "semi-autoregressive(2)", "refinement(4)", "wino", "fast-dllm(0.9)")
SWAGGER = {  # files of Swagger UI, with additions of ours
    "swagger-ui-bundle.js": ("swagger/swagger-ui-bundle.js",), "swagger-ui.css": ("swagger/swagger-ui.css", "docs.css"),
}  # fmt: skip
SHEETS = {"Cache-Control": "no-cache", "X-Frame-Options": "DENY"}


def routes(server: Server, app: FastAPI) -> APIRouter:
    """`/` and `/docs`."""
    router = APIRouter(include_in_schema=False)
    made, manual = playground(server), swagger(f"{app.title} · API")

    @router.get("/")
    async def page() -> Response:
        return HTMLResponse(made, headers=SHEETS)

    @router.get("/docs")
    async def docs() -> Response:
        return manual

    @router.get("/docs/{name}")
    async def file(name: str) -> Response:
        if name not in SWAGGER:
            raise Refusal(404, "there is nothing here: see /docs")
        body = "".join(_web(part) for part in SWAGGER[name])
        kind = "text/css" if name.endswith(".css") else "text/javascript"
        return Response(body, media_type=kind, headers={"Cache-Control": "max-age=86400"})

    return router


def swagger(title: str) -> Response:
    """Swagger UI, from files of this package: only they and the one script in the page may run."""
    page = get_swagger_ui_html(
        openapi_url="openapi.json", title=title, swagger_js_url="docs/swagger-ui-bundle.js",
        swagger_css_url="docs/swagger-ui.css", swagger_favicon_url="data:,",
        swagger_ui_parameters={"docExpansion": "list", "defaultModelsExpandDepth": 0, "deepLinking": False},
    )  # fmt: skip
    (script,) = re.findall(rb"<script>(.*?)</script>", bytes(page.body), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'self' 'sha256-{digest}'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'"
    )
    return HTMLResponse(page.body, headers={**SHEETS, "Content-Security-Policy": policy})


def playground(server: Server) -> str:
    """The page to play with."""
    models = [
        {"name": name, "languages": list(model.languages), "causal": model.causal, "forwards": model.forwards}
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
