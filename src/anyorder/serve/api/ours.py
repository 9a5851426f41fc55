"""Our own API: fill, infill, score, trace, and streams of steps as server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from anyorder.serve.answers import Json, event, shape
from anyorder.serve.canvases import Item, from_items, from_text
from anyorder.serve.follow import Steps
from anyorder.serve.how import Asked, How, HowShown, Text, Texts, options, plan
from anyorder.serve.refusal import Refusal, wrong
from anyorder.serve.server import Server
from anyorder.text.blanks import GAP
from anyorder.text.language_model import LanguageModel
from anyorder.text.load import translates
from anyorder.text.plan import Plan, planned
from anyorder.text.results import Filling, ranked
from anyorder.text.rows import Canvas, Input
from anyorder.text.translator import Translator
from anyorder.traces.page import plain
from anyorder.traces.trace import Trace, to_lines


class Fill(How):
    """Masks to fill: in a text, or (translation models) in a translation of `source`."""

    model: Text | None = None
    text: Text = Field(examples=["A [MASK] runs on the [MASK]."], description="Masks are written [MASK] or <mask>.")
    source: Text | None = Field(None, examples=["Ein Hund läuft am Strand."])
    to: Text | None = Field(None, examples=["en"], description="The language of the text.")
    n: int = 5


class Infill(How):
    """Gaps of unknown length to fill, each written {}."""

    model: Text | None = None
    text: Text = Field(examples=["The {} sat on the mat."])
    longest: int = Field(5, description="Lengths from 1 to this are tried for each gap.")
    n: int = 1


class Score(Asked):
    """Texts to score: Σ log p of each, given `sources` for translation models."""

    model: Text | None = None
    texts: Texts = Field(examples=[["A dog runs on the beach."]])
    sources: Texts | None = Field(None, examples=[["Ein Hund läuft am Strand."]])
    to: Text | None = Field(None, examples=["en"])


class Choose(Asked):
    """A slot and its labels, or a form of slots {name:label|label}: which belong there; nothing is written."""

    model: Text | None = None
    text: Text = Field(examples=["the {} sat ."])
    labels: Texts | None = Field(None, examples=[["cat", "dog ran", "mat"]])
    order: Text = Field("left2right", description="In which order a label's symbols follow; mean: over orders.")
    by: Literal["text", "token"] = "text"
    joint: bool = Field(True, description="Slots of a form together, or each on its own.")
    calibrate: Text | None = Field(None, description="A text that says nothing, with the slot.")


class Watch(HowShown):
    """A text whose writing is watched: a source to translate, or a text with masks."""

    model: Text | None = None
    text: Text = Field(examples=["Ein Hund läuft am Strand."])
    to: Text | None = Field(None, examples=["en"])
    from_: Text | None = Field(None, alias="from", examples=["de"])
    canvas: Annotated[list[Item], Field(fail_fast=True)] | None = Field(
        None, description="What stands on the target's canvas: tokens, words as {'text': …}, null where it is written."
    )


def routes(server: Server) -> APIRouter:
    """The routes of this dialect."""
    router = APIRouter(tags=["anyorder"])
    limits = server.limits

    def check(*texts: str) -> None:
        if any(len(text) > limits.characters for text in texts):
            raise wrong(f"a text may have {limits.characters} characters: split it")

    @router.post("/v1/fill")
    async def fill(request: Request, asked: Fill) -> Json:
        server.admit(request)
        check(asked.text, asked.source or "")
        if not 1 <= asked.n <= limits.samples:
            raise wrong(f"n is a whole number from 1 to {limits.samples}", "n")
        model = server.model(asked.model)
        if not translates(model):
            if asked.source is not None or asked.to is not None:
                raise wrong(f"{model.name} is a language model: it has no source and one language", "source")
            plan(asked)
            words = options(asked)

            def filled() -> list[Filling]:
                fits(model, asked.text)
                return model.fill(asked.text, asked.n, **words)

            found = await server.work(request, 1, filled)
            return Json({"fillings": [asdict(f) | {"probability": f.probability} for f in found]})
        if asked.source is None or asked.to is None:
            raise wrong(f"{model.name} translates: give the source of the text, and `to`, its language", "source")
        made = plan(asked, **({} if asked.beam or asked.temperature else {"beam": max(asked.n, 4)}),
                    nbest=asked.n, order=asked.order or "negent")  # fmt: skip
        source, to = asked.source, asked.to
        work = lambda: _filled(model, source, from_text(model, asked.text, to), to, made)  # noqa: E731
        return Json({"fillings": await server.work(request, 1, work)})

    @router.post("/v1/infill")
    async def infill(request: Request, asked: Infill) -> Json:
        server.admit(request)
        check(asked.text)
        model = server.model(asked.model)
        if translates(model):
            raise wrong(f"{model.name} translates, with a length model of its own: use /v1/fill", "model")
        if not 1 <= asked.n <= limits.samples or not 1 <= asked.longest <= limits.tokens:
            raise wrong(f"n is at most {limits.samples}, longest at most {limits.tokens}", "n")
        gaps = asked.text.count(GAP)
        if gaps > limits.gaps:
            raise wrong(f"the text has {gaps} gaps, and {limits.gaps} are allowed", "text")
        if (canvases := asked.longest**gaps) > limits.sentences:
            raise wrong(f"{canvases} canvases would be tried, and {limits.sentences} are allowed", "longest")
        plan(asked)
        lengths = range(1, asked.longest + 1)
        words = options(asked)

        def infilled() -> list[Filling]:
            fits(model, asked.text, asked.longest * gaps)
            return model.infill(asked.text, lengths, asked.n, **words)

        found = await server.work(request, canvases, infilled)
        return Json({"fillings": [asdict(f) | {"probability": f.probability} for f in found]})

    @router.post("/v1/choose")
    async def choose(request: Request, asked: Choose) -> Json:
        server.admit(request)
        check(asked.text, *(asked.labels or ()), asked.calibrate or "")
        model = server.model(asked.model)
        if translates(model):
            raise wrong(f"{model.name} translates: choices are for language models", "model")
        if asked.labels is None:
            if asked.calibrate is not None:
                raise wrong("calibrate is for one slot with labels: leave it out", "calibrate")

            def told() -> Any:
                fits(model, asked.text)
                return asdict(model.read(asked.text, order=asked.order, joint=asked.joint, by=asked.by))

            return Json(await server.work(request, 1, told))
        labels = asked.labels
        server.check_count(len(labels))

        def chosen() -> list[Any]:
            fits(model, asked.text)
            return model.choose(asked.text, labels, order=asked.order, by=asked.by, calibrate=asked.calibrate)

        found = await server.work(request, len(labels), chosen)
        return Json({"choices": [asdict(c) for c in found]})

    @router.post("/v1/score")
    async def score(request: Request, asked: Score) -> Json:
        server.admit(request)
        server.check_count(max(len(asked.texts), len(asked.sources or ())))
        check(*asked.texts, *(asked.sources or ()))
        if not asked.texts:
            raise wrong("texts is an empty list", "texts")
        model = server.model(asked.model)
        if not translates(model):
            if asked.sources is not None:
                raise wrong(f"{model.name} is a language model: its texts have no sources", "sources")

            def scored() -> Sequence[Any]:
                for text in asked.texts:
                    fits(model, text)
                return model.score(asked.texts)

            scores = await server.work(request, len(asked.texts), scored)
            return Json({"scores": [{"total": s.total, "tokens": s.tokens, "logp": s.logp} for s in scores]})
        if asked.sources is None or asked.to is None:
            raise wrong(f"{model.name} translates: give sources, and `to`, the language of the texts", "sources")
        sources, to = asked.sources, asked.to

        def totalled() -> list[float]:
            _room(model, sources, model.direction(to, None)[0])
            _room(model, asked.texts, to)
            return model.score(sources, asked.texts, to)

        totals = await server.work(request, len(sources), totalled)
        return Json({"scores": [{"total": total} for total in totals]})

    @router.post("/v1/trace", response_class=Response)
    async def trace(request: Request, asked: Watch) -> Response:
        server.admit(request)
        made, work = watched(asked)
        found: Trace = await server.work(request, 1, lambda: work(made))
        return Response("".join(line + "\n" for line in to_lines(found)), media_type="application/jsonl")

    @router.post("/v1/stream", response_class=StreamingResponse)
    async def stream(request: Request, asked: Watch) -> Response:
        server.admit(request)
        made, work = watched(asked)
        model = server.model(asked.model)
        told = server.follow(request, 1, lambda: work(made), lambda tell: Steps(model._strings, tell))
        await anext(told)  # something to tell, or refused as any other request
        return StreamingResponse(_events(request, told), media_type="text/event-stream", headers=STREAMED)

    def watched(asked: Watch) -> tuple[Plan, Any]:
        check(asked.text)
        model = server.model(asked.model)
        if not translates(model):
            for name in ("to", "from_", "canvas"):
                if getattr(asked, name) is not None:
                    raise wrong(f"{model.name} writes on the text's own masks: leave out {name.strip('_')}", name)
            words = options(asked)

            def traced(_: Plan) -> Trace:
                fits(model, asked.text)
                return model.trace(asked.text, **words)

            return planned("stream", None, words), traced
        if asked.to is None:
            raise wrong("say which language to translate into: `to`", "to")
        made, to, canvas = plan(asked), asked.to, asked.canvas
        if canvas is not None and asked.lengths is not None and asked.lengths > 1:
            raise wrong("the canvas has its length: leave out lengths", "lengths")

        def translated(one: Plan) -> Trace:
            _room(model, [asked.text], model.direction(to, asked.from_)[0])
            if canvas is None:
                return model.trace(asked.text, to, source=asked.from_, plan=one)
            return _traced(model, asked.text, to, asked.from_, from_items(model, canvas, to), one)

        return made, translated

    return router


STREAMED = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def fits(model: LanguageModel, text: str, more: int = 0) -> None:
    """Refuse a text that is too long for a language model."""
    room, size = model.model.max_length, len(model.tokenizer.encode(text)) + more
    if room is not None and size > room:
        raise wrong(f"the text has {size} tokens, and {model.name} was made for {room}: shorten it", "text")


def _room(model: Translator, texts: list[str], language: str) -> None:
    room = int(model.model.architecture.positions) - 2
    for text, ids in zip(texts, model.tokenizer.encode(texts, language), strict=True):
        if len(ids) > room:
            raise wrong(f"{len(ids)} tokens, but {model.name} reads at most {room}: split the text")
        if not text.strip():
            raise wrong("the text is empty", "text")


def _filled(model: Translator, source: str, canvas: tuple[int, ...], to: str, made: Plan) -> list[dict[str, Any]]:
    where = [i for i, token in enumerate(canvas) if token == model.model.mask_id]
    (ids,) = model.tokenizer.encode([source], model.direction(to, None)[0])
    _room(model, [source], model.direction(to, None)[0])
    blank = Canvas(canvas, rule=model.rule(made, source))
    found = model.generator(to).generate([Input(tuple(ids), (blank,))], made)[0]
    return [
        {
            "text": str(model.tokenizer.decode([list(h.ids)], to)[0]),
            "tokens": model.tokenizer.tokens([h.ids[i] for i in where]), "ids": [h.ids[i] for i in where],
            "logp": sum(h.logp[i] for i in where), "score": h.score,
        }
        for h in ranked(found)[: made.nbest]
    ]  # fmt: skip


def _traced(model: Translator, text: str, to: str, source: str | None, canvas: tuple[int, ...], made: Plan) -> Trace:
    """The trace of a translation around what is fixed on its canvas."""
    direction = model.direction(to, source)
    blank = Canvas(canvas, rule=model.rule(made, text))
    given = Input(tuple(model.tokenizer.encode([text], direction[0])[0]), (blank,))
    best = ranked(model.generator(to, source).generate([given], made, keep=True)[0])[0]
    return model._traced(model._said(best, to), text, given, direction)


async def _events(request: Request, told: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    """Events as bytes; a refusal that comes late is an event as well."""
    try:
        async for name, what in told:
            if name == "end":
                records = [json.loads(line) for line in to_lines(what)]
                yield event({"records": records, "pieces": plain(what)["pieces"], "text": what.text}, "end")
            else:
                yield event(what, name)
    except Refusal as why:
        request.scope["refusal"] = why
        yield event(shape(request.url.path, why), "error")
