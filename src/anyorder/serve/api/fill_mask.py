"""Hugging Face's fill-mask: {inputs} in, [{score, token, token_str, sequence}] out; masks are filled jointly."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field

from anyorder.serve.answers import Json
from anyorder.serve.api.ours import fits
from anyorder.serve.how import Asked, Text, Texts
from anyorder.serve.refusal import wrong
from anyorder.serve.server import Server
from anyorder.text.blanks import MASKS
from anyorder.text.language_model import LanguageModel
from anyorder.text.load import translates
from anyorder.text.results import Filling


class Parameters(Asked):
    """What may be said beside the inputs."""

    top_k: int | None = None
    targets: Texts | None = None


class FillMask(Asked):
    """Texts with masks, each written [MASK] or <mask>."""

    inputs: Text | Texts = Field(examples=["the [MASK] sat on the [MASK] ."])
    parameters: Parameters | None = None
    options: dict[str, Any] | None = None  # Hugging Face's own (caching, waiting): there is nothing to wait for here


def routes(server: Server) -> APIRouter:
    """The routes of this dialect."""
    router = APIRouter(tags=["Hugging Face"])

    @router.post("/models/{name}")
    async def fill_mask(request: Request, name: str, asked: FillMask) -> Json:
        """The likeliest fillings of all masks of a text, jointly; a list of texts gives a list of lists."""
        server.admit(request)
        model = server.model(name)
        if translates(model):
            raise wrong(f"{model.name} translates: fill a translation's masks with /v1/fill")
        given = asked.parameters or Parameters()
        if given.targets is not None:
            raise wrong("masks are filled with any words: leave out targets", "parameters")
        n = 5 if given.top_k is None else given.top_k
        if not 1 <= n <= server.limits.samples:
            raise wrong(f"top_k is a whole number from 1 to {server.limits.samples}", "parameters")
        texts = [asked.inputs] if isinstance(asked.inputs, str) else asked.inputs
        server.check_count(len(texts))
        for text in texts:
            if len(text) > server.limits.characters:
                raise wrong(f"a text may have {server.limits.characters} characters: split it", "inputs")
            if not any(mask in text for mask in (*MASKS, str(model.tokenizer.mask_token))):
                raise wrong(f"a text has no mask: write {model.tokenizer.mask_token} where a word is missing", "inputs")
        if not texts:
            raise wrong("inputs is an empty list", "inputs")

        def filled() -> list[list[Filling]]:
            for text in texts:
                fits(model, text)
            return model.fill(texts, n)

        found = await server.work(request, len(texts), filled)
        answers = [[_shown(model, one) for one in some] for some in found]
        return Json(answers[0] if isinstance(asked.inputs, str) else answers)

    return router


def _shown(model: LanguageModel, filling: Filling) -> dict[str, Any]:
    """One mask has a token; several have a list of them."""
    words = [str(model.tokenizer.decode([i])) for i in filling.ids]
    one = len(words) == 1
    return {
        "score": filling.probability, "token": filling.ids[0] if one else list(filling.ids),
        "token_str": words[0] if one else words, "sequence": filling.text,
    }  # fmt: skip
