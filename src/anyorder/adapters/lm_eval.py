"""lm-evaluation-harness: a language model of anyorder under the name "anyorder".

    python -m anyorder.adapters.lm_eval --model_args pretrained=FOLDER,order=confidence,steps=16 --tasks arc_easy

runs the harness's own command line; after an import of this module `lm_eval.simple_evaluate(model="anyorder", …)`
knows the name too. A score never depends on the batch: rows do not mix, and what is drawn belongs to its text.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch

from anyorder.errors import ModelError, UsageError, extra
from anyorder.options import known

with extra("eval"):
    from lm_eval.api.model import LM
    from lm_eval.api.registry import register_model

BY = ("pll", "chain", "bound", "marginal")


@register_model("anyorder")
class AnyorderLM(LM):  # type: ignore[misc]  # the harness has no types
    """`likelihood` says what log p of a continuation is: see `LanguageModel.likelihood`. Other arguments are options of
    `generate` (order, steps, temperature …), or of loading (dtype, revision …)."""

    def __init__(
        self,
        pretrained: str,
        likelihood: Any = "chain",
        samples: int = 32,
        max_gen_toks: int | None = None,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        device: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        from anyorder.options import Loading
        from anyorder.text.language_model import LanguageModel
        from anyorder.text.load import load

        if likelihood not in BY:
            raise UsageError(f"likelihood is {', '.join(BY)}; got {likelihood!r}")
        loading = {name: options.pop(name) for name in list(options) if name in known(Loading)}
        if device is not None and not (device.startswith("cuda") and not torch.cuda.is_available()):
            loading["device"] = device  # the harness asks for cuda:0 unasked
        model = load(pretrained, kind="language", **loading)
        if not isinstance(model, LanguageModel):
            raise ModelError(f"{pretrained} is no language model")
        self.model, self.name, self.options = model, pretrained, options
        self.likelihood, self.samples, self.longest = likelihood, int(samples), max_gen_toks

    @property
    def tokenizer_name(self) -> str:
        """What caches of requests are told apart by."""
        return self.name.replace("/", "__")

    def chat_template(self, chat_template: bool | str = False) -> str:
        """The template, for the harness's record."""
        return str(getattr(self.model.tokenizer, "chat_template", None) or "")

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Messages as one text."""
        return str(
            self.model.tokenizer.apply_chat_template(
                chat_history, tokenize=False, add_generation_prompt=add_generation_prompt
            )
        )

    def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """log p of each continuation after its context, and whether greedy writing from left to right would give it."""
        pairs = [request.args for request in requests]
        found: Any = self.model.likelihood(
            [c for _, c in pairs], [g for g, _ in pairs], by=self.likelihood, samples=self.samples, greedy=True
        )
        return [(one.nats, one.greedy) for one in found]

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        """log p of whole texts."""
        texts = [request.args[0] for request in requests]
        found: Any = self.model.likelihood(texts, by=self.likelihood, samples=self.samples)
        return [one.nats for one in found]

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """What is written after each prompt, up to what ends it."""
        out = []
        for request in requests:
            prompt, how = request.args[0], dict(request.args[1])
            until, most = how.get("until") or [], self.longest or how.get("max_gen_toks")
            options = dict(self.options)
            if how.get("do_sample") and "temperature" in how:
                options["temperature"] = float(how["temperature"])
            stop = [until] if isinstance(until, str) else [s for s in until if s]
            (found,) = self.model.generate(prompt, length=most, stop=stop, **options)
            out.append(found.text[len(prompt) :])
        return out


def main() -> None:
    """The harness's command line, with our model as its default."""
    from lm_eval.__main__ import cli_evaluate

    arguments = sys.argv[1:]
    if "--model" not in arguments and not any(a.startswith("--model=") for a in arguments):
        begin = 1 if arguments[:1] == ["run"] else 0
        sys.argv[1 + begin : 1 + begin] = ["--model", "anyorder"]
    cli_evaluate()


if __name__ == "__main__":
    main()
