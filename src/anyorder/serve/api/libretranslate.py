"""LibreTranslate's API: its clients work unchanged. Lines of a text are translated one by one."""

from __future__ import annotations

import json
from typing import Any, Literal
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from pydantic import Field, ValidationError

from anyorder.options import known
from anyorder.serve.answers import Json
from anyorder.serve.how import Asked, HowMany, Text, Texts, plan
from anyorder.serve.language import detect
from anyorder.serve.problems import sentence
from anyorder.serve.refusal import Refusal, wrong
from anyorder.serve.server import Server
from anyorder.text.results import Translation
from anyorder.text.translator import NAMES, Translator
from anyorder.text.words import FORWARDS

FIELDS = 100  # of a form


class Ask(HowMany):
    """POST /translate. Beside LibreTranslate's own fields, the options of a plan may ride along."""

    q: Text | Texts = Field(examples=["Ein Hund läuft am Strand."])
    source: Text = Field("auto", examples=["de"])
    target: Text = Field(examples=["en"])
    format: Literal["text"] = "text"
    alternatives: int = 0
    api_key: Text | None = None


class Detect(Asked):
    """POST /detect."""

    q: Text = Field(examples=["A dog runs on the beach."])
    api_key: Text | None = None


def _body(asked: type[Asked]) -> dict[str, Any]:
    """Both kinds of body that LibreTranslate takes, for the documentation."""
    schema = {"schema": asked.model_json_schema()}
    kinds = ("application/json", "application/x-www-form-urlencoded")
    return {"requestBody": {"required": True, "content": {kind: schema for kind in kinds}}}


async def _asked(request: Request, asked: type[Asked]) -> Any:
    body, kind = await request.body(), request.headers.get("content-type", "application/json").split(";")[0].strip()
    try:
        if kind == "application/x-www-form-urlencoded":
            given: Any = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS))
        elif kind == "application/json":
            given = json.loads(body)
        else:
            raise Refusal(415, f"a body of type {kind[:80]} is not read: send JSON or a form")
    except (ValueError, RecursionError):
        raise wrong("the body is neither JSON nor a form in UTF-8") from None
    try:
        return asked.model_validate(given)
    except ValidationError as error:
        raise wrong(*sentence(error.errors(include_input=False))) from None


def routes(server: Server) -> APIRouter:
    """The routes of this dialect."""
    router = APIRouter(tags=["LibreTranslate"])

    def translator(source: str, target: str) -> Translator:
        known = {language for one in server.translators for language in one.languages}
        for language, field in ((source, "source"), (target, "target")):
            if language not in known and not (field == "source" and language == "auto"):
                raise wrong(f"{language} is not supported", field)
        for one in server.translators:
            if target in one.languages and (source == "auto" or source in one.languages):
                return one
        raise wrong(f"no model here translates from {source} to {target}", "target")

    @router.post("/translate", openapi_extra=_body(Ask))
    async def translate(request: Request) -> Json:
        asked: Ask = await _asked(request, Ask)
        server.admit(request, asked.api_key)
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        _check(server, texts, asked.alternatives)
        model = translator(asked.source, asked.target)
        lines = [text.splitlines() or [""] for text in texts]
        made = plan(asked, nbest=asked.alternatives + 1, **_beam(model, asked))
        request.scope["notes"]["texts"] = texts

        def work() -> list[tuple[list[Translation], dict[str, float]]]:
            found = []
            for text, some in zip(texts, lines, strict=True):
                likely = detect(model, text) if asked.source == "auto" else {asked.source: 1.0}
                found.append((some, max(likely, key=lambda language: likely[language]), likely))
            out: list[tuple[list[Translation], dict[str, float]]] = []
            flat: dict[str, list[str]] = {}
            for some, source, _ in found:
                if source != asked.target:
                    flat.setdefault(source, []).extend(some)
            done = {source: iter(model.translate(some, asked.target, source=source, plan=made, scores=False))
                    for source, some in flat.items()}  # fmt: skip
            for some, source, likely in found:
                same = source == asked.target  # nothing to translate
                out.append(([_untouched(t) if same else next(done[source]) for t in some], likely))
            return out

        found = await server.work(request, sum(map(len, lines)), work)
        return Json(_answer(asked, found))

    @router.post("/detect", openapi_extra=_body(Detect))
    async def detected(request: Request) -> Json:
        asked: Detect = await _asked(request, Detect)
        server.admit(request, asked.api_key)
        _check(server, [asked.q], 0)
        if not server.translators:
            raise wrong("no translation model is served, so languages are not told apart")
        model = server.translators[0]
        likely = await server.work(request, 1, lambda: detect(model, asked.q))
        return Json([_language(likely, one) for one in sorted(likely, key=lambda one: -likely[one])])

    @router.get("/languages")
    async def languages() -> Json:
        return Json(_languages(server))

    @router.get("/frontend/settings")
    async def settings() -> Json:
        first = [{"code": one["code"], "name": one["name"]} for one in _languages(server)] or [{"code": "", "name": ""}]
        return Json({
            "apiKeys": server.keys.needed, "charLimit": server.limits.characters, "frontendTimeout": 500,
            "keyRequired": server.keys.needed, "suggestions": False, "filesTranslation": False,
            "supportedFilesFormat": [], "language": {"source": first[0], "target": first[-1]},
        })  # fmt: skip

    return router


def _check(server: Server, texts: list[str], alternatives: int) -> None:
    longest = server.limits.characters
    if not texts:
        raise wrong("q is an empty list", "q")
    if any(len(text) > longest for text in texts):
        raise wrong(f"a text may have {longest} characters: split it", "q")
    if not 0 <= alternatives < server.limits.samples:
        raise wrong(f"alternatives is a whole number from 0 to {server.limits.samples - 1}", "alternatives")


def _beam(model: Translator, asked: Ask) -> dict[str, int]:
    """Where a text is written to its own end there is one of it, and others only beside it in a beam."""
    single = model.causal or (model.forwards and asked.order in (None, FORWARDS))
    return (
        {"beam": min(asked.alternatives + 1, int(known()["beam"].about.served or 1))}
        if asked.alternatives and single and not asked.temperature
        else {}
    )


def _untouched(text: str) -> Translation:
    return Translation(text)


def _answer(asked: Ask, found: list[tuple[list[Translation], dict[str, float]]]) -> dict[str, Any]:
    """One answer or a list of each thing, as `q` was."""
    for lines, _ in found:
        for line in lines:
            if line.error:
                raise wrong(line.error, "q")
    texts = ["\n".join(t.text if t.hypotheses else t.source for t in lines) for lines, _ in found]
    answer: dict[str, Any] = {"translatedText": texts}
    if asked.source == "auto":
        answer["detectedLanguage"] = [_language(p, max(p, key=lambda language: p[language])) for _, p in found]
    if asked.alternatives:
        answer["alternatives"] = [_others(lines, asked.alternatives) for lines, _ in found]
    return answer if isinstance(asked.q, list) else {name: values[0] for name, values in answer.items()}


def _others(lines: list[Translation], n: int) -> list[str]:
    """The next best translations of a text: each line's next best, its best where there is none."""
    deep = max((len(t.hypotheses) for t in lines), default=0)
    return [
        "\n".join((t.hypotheses[min(k, len(t.hypotheses) - 1)].text if t.hypotheses else t.source) for t in lines)
        for k in range(1, min(deep, n + 1))
    ]


def _language(likely: dict[str, float], language: str) -> dict[str, Any]:
    return {"confidence": round(100 * likely[language], 1), "language": language}


def _languages(server: Server) -> list[dict[str, Any]]:
    known: dict[str, set[str]] = {}
    for one in server.translators:
        for language in one.languages:
            known.setdefault(language, set()).update(set(one.languages) - {language})
    return [
        {"code": code, "name": NAMES.get(code, code), "targets": sorted(targets | {code})}
        for code, targets in known.items()
    ]
