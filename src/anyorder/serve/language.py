"""Which language a text is in: the one in which a translation model finds it likeliest."""

from __future__ import annotations

import math

from anyorder.text.rows import Whole
from anyorder.text.translator import Translator

LOOK = 16  # tokens of a text that are looked at: enough to know


def detect(model: Translator, text: str) -> dict[str, float]:
    """{language: probability}, all alike where there is nothing to tell them by.

    A text is judged as a translation of nothing: log p of each of its first tokens given the others (from left to
    right where the model can, which tells languages apart better and takes one pass), softmax over languages.
    """
    scores: dict[str, float] = {}
    for language in model.languages:
        ids = model.tokenizer.encode([text], language)[0][:LOOK]
        if not ids:
            return {one: 1 / len(model.languages) for one in model.languages}
        other = next(one for one in model.languages if one != language)
        judge = model.generator(language, other)
        if model.model.slotted and model.beside is not None:
            judge = model.beside().generator(language, other)
        judge = judge.forwards if model.forwards else judge
        values = judge.log_probs([Whole((), ids, 0, len(ids))])[0]
        scores[language] = float(values.sum())
    best = max(scores.values())
    weights = {language: math.exp(score - best) for language, score in scores.items()}
    total = sum(weights.values())
    return {language: weight / total for language, weight in weights.items()}
