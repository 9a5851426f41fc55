"""OpenAI's API: completions and chat completions; its clients work unchanged, streaming too."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from anyorder.options import known, takes
from anyorder.serve.answers import Json, event, shape
from anyorder.serve.api.openai_fields import Chat, Common, Completion, check, rule
from anyorder.serve.api.ours import STREAMED
from anyorder.serve.complete import Choice, Wanted, speaker, translations, way, writings
from anyorder.serve.follow import Prefix
from anyorder.serve.how import plan
from anyorder.serve.refusal import Refusal, wrong
from anyorder.serve.server import Server
from anyorder.text.load import Model, translates
from anyorder.text.rules.rule import ruled


@dataclass(frozen=True)
class Asking:
    """A request that makes sense: what runs on its thread, and how its answer looks."""

    asked: Common
    model: Model
    prompts: Sequence[str]
    suffix: str
    wanted: Wanted
    chat: bool

    @property
    def rows(self) -> int:
        """Sentences that it counts for."""
        each = self.wanted.n if self.wanted.plan.temperature else 1
        return len(self.prompts) * each * (self.wanted.tokens or 16 if self.suffix else 1)

    def write(self, prefix: Prefix | None = None) -> list[tuple[list[Choice], int]]:
        """The choices of every prompt, and how many tokens the prompt has."""
        out = []
        for prompt in self.prompts:
            if translates(self.model):
                where = way(self.model, prompt, self.asked.to, self.asked.from_)
                if prefix is not None:
                    prefix.begin(
                        speaker(self.model, where.to), self.model.generator(where.to, where.source), self.wanted
                    )
                out.append((translations(self.model, where, self.wanted), len(where.ids)))
            else:
                size = len(self.model._encode(prompt))
                if prefix is not None and not self.suffix:
                    start = len(self.model._wrap(self.model._encode(prompt))[0])
                    prefix.begin(speaker(self.model), self.model.generator, self.wanted, start)
                out.append((writings(self.model, prompt, self.suffix, self.wanted), size))
        return out


def routes(server: Server) -> APIRouter:
    """The routes of this dialect."""
    router = APIRouter(tags=["OpenAI"])

    def listed(name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": server.started, "owned_by": "anyorder"}

    @router.get("/v1/models")
    async def models(request: Request) -> Json:
        """The models that are served."""
        server.admit(request)
        return Json({"object": "list", "data": [listed(name) for name in server.models]})

    @router.get("/v1/models/{name}")
    async def model(request: Request, name: str) -> Json:
        """One of them."""
        server.admit(request)
        server.model(name)
        return Json(listed(name))

    @router.post("/v1/completions", response_class=Response)
    async def completions(request: Request, asked: Completion) -> Response:
        """A translator translates the prompt, a language model goes on with it (or fills the gap before `suffix`)."""
        server.admit(request)
        if asked.best_of not in (None, asked.n or 1):
            raise wrong("best_of is as many as are returned: leave it out", "best_of")
        prompts = [asked.prompt] if isinstance(asked.prompt, str) else asked.prompt
        if not prompts:
            raise wrong("prompt is an empty list", "prompt")
        if asked.stream and len(prompts) > 1:
            raise wrong("one prompt at a time can be streamed", "prompt")
        made = asking(asked, prompts, asked.suffix or "", asked.max_tokens, asked.logprobs, chat=False)
        return await answer(request, made)

    @router.post("/v1/chat/completions", response_class=Response)
    async def chat(request: Request, asked: Chat) -> Response:
        """A translator translates the user's message; a language model with a chat template answers."""
        server.admit(request)
        if asked.top_logprobs is not None and not asked.logprobs:
            raise wrong("top_logprobs needs logprobs: true", "top_logprobs")
        top = (asked.top_logprobs or 0) if asked.logprobs else None
        tokens = asked.max_completion_tokens if asked.max_tokens is None else asked.max_tokens
        prompt = said(server.model(asked.model), asked, server.limits.characters)
        return await answer(request, asking(asked, [prompt], "", tokens, top, chat=True))

    def asking(
        asked: Common, prompts: Sequence[str], suffix: str, tokens: int | None, top: int | None, *, chat: bool
    ) -> Asking:
        check(asked, server.limits, tokens, top)
        if any(len(text) > server.limits.characters for text in (*prompts, suffix)):
            raise wrong(f"a text may have {server.limits.characters} characters: split it", "prompt")
        model = server.model(asked.model)
        if translates(model) and suffix:
            raise wrong(f"{model.name} translates: what comes after it has no meaning, leave out suffix", "suffix")
        if not translates(model):
            for name in ("to", "from_", *(option for option in known() if option not in takes("generate"))):
                if vars(asked).get(name) is not None:
                    raise wrong(f"{model.name} is a language model: leave out {name.strip('_')}", name.strip("_"))
        if asked.top_p == 1:
            asked = asked.model_copy(update={"top_p": None})  # all of them: says nothing
        stop = (asked.stop,) if isinstance(asked.stop, str) else tuple(asked.stop or ())
        n = asked.n or 1
        held = rule(asked)
        made = plan(asked, **_defaults(model, asked, n, suffix), **held)
        if ruled(made) and asked.stream and not translates(model):
            raise wrong("a text under a rule is sent when it is finished: leave out stream", "stream")
        return Asking(asked, model, prompts, suffix, Wanted(made, n, tokens, stop, top), chat)

    async def answer(request: Request, made: Asking) -> Response:
        request.scope["notes"]["texts"] = list(made.prompts)
        if made.asked.stream:
            prefix = Prefix()
            told = server.follow(request, made.rows, lambda: made.write(prefix), prefix.heard_by)
            await anext(told)  # something to tell, or refused as any other request
            return StreamingResponse(_events(request, made, told), media_type="text/event-stream", headers=STREAMED)
        return Json(_whole(made, await server.work(request, made.rows, made.write)))

    return router


def _defaults(model: Model, asked: Common, n: int, suffix: str) -> dict[str, Any]:
    """What is not said: translations are the likeliest, other texts are drawn."""
    if translates(model):
        several = n > 1 and not asked.temperature and not model.causal
        return {"nbest": n} | ({"beam": n} if several and asked.beam is None else {})
    if suffix:
        return {"order": "negent", "beam": max(n, 4)} if not asked.temperature else {"order": "negent"}
    drawn = asked.temperature != 0 and (asked.beam or 1) == 1
    return {"order": "uniform", "temperature": 1.0} if drawn else {"order": "negent"}


def said(model: Model, asked: Chat, most: int) -> str:
    """The prompt of a chat: the user's message, or all of them in the model's own template."""
    if not asked.messages:
        raise wrong("messages is an empty list", "messages")
    if sum(len(m.text) for m in asked.messages) > most:
        raise wrong(f"messages may have {most} characters: shorten them", "messages")
    template = None if translates(model) else getattr(model.tokenizer, "chat_template", None)
    if template is not None:
        messages = [{"role": m.role, "content": m.text} for m in asked.messages]
        return str(model.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    if len(asked.messages) != 1 or asked.messages[0].role != "user":
        raise wrong(f"{model.name} knows no conversations: send one message, of the user", "messages")
    return asked.messages[0].text


# ---------------------------------------------------------------- answers


def _head(made: Asking, name: str) -> dict[str, Any]:
    prefix, kind = ("chatcmpl", "chat.completion") if made.chat else ("cmpl", "text_completion")
    chunk = ".chunk" if name and made.chat else ""
    return {"id": f"{prefix}-{secrets.token_hex(12)}", "object": kind + chunk, "created": int(time.time()),
            "model": made.asked.model}  # fmt: skip


def _whole(made: Asking, found: list[tuple[list[Choice], int]]) -> dict[str, Any]:
    flat = [choice for choices, _ in found for choice in choices]
    return _head(made, "") | {"choices": [_choice(made, i, c) for i, c in enumerate(flat)], "usage": _usage(found)}


def _usage(found: list[tuple[list[Choice], int]]) -> dict[str, int]:
    read, written = sum(size for _, size in found), sum(c.tokens for choices, _ in found for c in choices)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _choice(made: Asking, index: int, choice: Choice) -> dict[str, Any]:
    logprobs = _logprobs(made, choice)
    end = {"index": index, "logprobs": logprobs, "finish_reason": choice.finish}
    if made.chat:
        return {"message": {"role": "assistant", "content": choice.text, "refusal": None}} | end
    return {"text": choice.text} | end


def _logprobs(made: Asking, choice: Choice) -> dict[str, Any] | None:
    if made.wanted.top is None:
        return None
    if made.chat:
        tops = choice.top or [()] * len(choice.pieces)
        rows = zip(choice.pieces, choice.logp, tops, strict=True)
        return {"content": [_token(t, p) | {"top_logprobs": [_token(*one) for one in top]} for t, p, top in rows],
                "refusal": None}  # fmt: skip
    offsets = [len("".join(choice.pieces[:k])) for k in range(len(choice.pieces))]
    return {"tokens": choice.pieces, "token_logprobs": choice.logp, "text_offset": offsets,
            "top_logprobs": [dict(top) for top in choice.top] if choice.top else None}  # fmt: skip


def _token(text: str, logp: float) -> dict[str, Any]:
    return {"token": text, "logprob": logp, "bytes": list(text.encode("utf-8", "replace"))}


async def _events(request: Request, made: Asking, told: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    """The finished beginning as it grows, then the rest; a refusal that comes late is an event as well."""
    head, sent = _head(made, "chunk"), ""
    usage = {"usage": None} if made.asked.stream_options and made.asked.stream_options.include_usage else {}

    def chunk(index: int, text: str, finish: str | None, logprobs: Any = None, first: bool = False) -> bytes:
        if made.chat:
            body: dict[str, Any] = {
                "delta": ({"role": "assistant"} if first else {}) | ({"content": text} if text else {})
            }
        else:
            body = {"text": text}
        one = body | {"index": index, "logprobs": logprobs, "finish_reason": finish}
        return event(head | {"choices": [one]} | usage)

    try:
        begun = False
        async for name, what in told:
            if name == "text":
                if what.startswith(sent):
                    yield chunk(0, what[len(sent) :], None, first=not begun)
                    sent, begun = what, True
                continue
            (choices, _), *_ = what
            for index, choice in enumerate(choices):
                rest = choice.text[len(sent) :] if index == 0 else choice.text
                yield chunk(index, rest, None, _logprobs(made, choice), first=index > 0 or not begun)
                yield chunk(index, "", choice.finish)
            if usage:
                yield event(head | {"choices": [], "usage": _usage(what)})
        yield event("[DONE]")
    except Refusal as why:
        request.scope["refusal"] = why
        yield event(shape(request.url.path, why))
