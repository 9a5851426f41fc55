"""Diffusion LMs: our `generate` beside the loops that the models' authors publish, and beside the arithmetic alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyorder.core.model import NoContext
from anyorder.lab.sides import Side, interleaved
from anyorder.models.diffusion_lm import DiffusionLM
from anyorder.text.generator import Generator
from anyorder.text.plan import Plan
from anyorder.text.rows import Canvas, Input

PROMPT, NEW, BLOCK, LAYERS = 64, 128, 32, 8
PAD, MASK = 0, 1
CONFIDENT = 0.9  # Fast-dLLM's threshold


@dataclass(frozen=True)
class Corner:
    """A model's size, how many prompts are given at once, and the steps that the loops take."""

    hidden: int
    vocabulary: int
    prompts: int
    steps: int


CORNERS = tuple(
    Corner(hidden, vocabulary, prompts, 8)
    for hidden in (256, 1024)
    for vocabulary in (32_000, 150_000)
    for prompts in (1, 16)
)


def small(corner: Corner, family: str) -> DiffusionLM:
    """A random Llama (LLaDA) or Qwen 2 (Dream) that sees both sides; it never prefers its mask or padding."""
    import transformers

    name = "Qwen2" if family == "dream" else "Llama"
    kind: Any = getattr(transformers, f"{name}ForCausalLM")
    torch.manual_seed(0)
    config = kind.config_class(
        vocab_size=corner.vocabulary, hidden_size=corner.hidden, intermediate_size=8 * corner.hidden // 3,
        num_hidden_layers=LAYERS, num_attention_heads=8, num_key_value_heads=8, max_position_embeddings=512,
        pad_token_id=PAD, bos_token_id=None, eos_token_id=None, is_causal=False, tie_word_embeddings=False,
        initializer_range=0.05,
    )  # fmt: skip
    model: Any = kind(config).eval().requires_grad_(False)
    model.lm_head.weight[[PAD, MASK]] = 0.0
    return DiffusionLM(model, MASK, PAD, shifted=family == "dream")


def whole_logits(model: DiffusionLM, x: Tensor) -> Tensor:
    """What the published loops ask a model for: the logits of every position, (N, L, V)."""
    states = model.hidden(NoContext(), x)
    return model.logits(states.flatten(0, 1)).view(*x.shape, -1)


# ------------------------------------------------------------------ the published loops, written plainly


@torch.no_grad()
def llada_loop(model: DiffusionLM, prompt: Tensor, steps: int) -> Tensor:
    """LLaDA's `generate` at temperature 0: low-confidence remasking, in blocks."""
    x = torch.cat([prompt, prompt.new_full((len(prompt), NEW), MASK)], 1)
    each = steps // (NEW // BLOCK)
    for start in range(PROMPT, PROMPT + NEW, BLOCK):
        for t in range(each):
            share = BLOCK // each + (t < BLOCK % each)
            masked = x == MASK
            logits = whole_logits(model, x)
            best = logits.argmax(-1)
            p = logits.to(torch.float64).softmax(-1).gather(-1, best[..., None])[..., 0]
            p[:, start + BLOCK :] = -torch.inf
            confidence = torch.where(masked, p, -torch.inf)
            for row in range(len(x)):
                where = confidence[row].topk(share).indices
                x[row, where] = best[row, where]
    return x


@torch.no_grad()
def fast_dllm_loop(model: DiffusionLM, prompt: Tensor, steps: int) -> Tensor:
    """Fast-dLLM's parallel decoding without a cache: all of a block above a confidence, at least one; a row at a time,
    as it is published for a batch of one."""
    rows = []
    for one in prompt:
        x = torch.cat([one[None], one.new_full((1, NEW), MASK)], 1)
        for start in range(PROMPT, PROMPT + NEW, BLOCK):
            while bool((x[:, start : start + BLOCK] == MASK).any()):
                masked = x == MASK
                logits = whole_logits(model, x)
                best = logits.argmax(-1)
                p = logits.to(torch.float64).softmax(-1).gather(-1, best[..., None])[..., 0]
                p[:, start + BLOCK :] = -torch.inf
                confidence = torch.where(masked, p, -torch.inf)
                take = confidence >= CONFIDENT
                take[0, confidence[0].argmax()] = True
                x = torch.where(take, best, x)
        rows.append(x)
    return torch.cat(rows)


@torch.no_grad()
def dream_loop(model: DiffusionLM, prompt: Tensor, steps: int) -> Tensor:
    """Dream's `diffusion_generate` at temperature 0, `entropy`, a row at a time, as its numbers of positions are."""
    rows = []
    for one in prompt:
        x = torch.cat([one[None], one.new_full((1, NEW), MASK)], 1)
        times = torch.linspace(1, 1e-3, steps + 1)
        for t in range(steps):
            masked = x == MASK
            logits = whole_logits(model, x)[masked]
            kept = logits.masked_fill(logits < logits.topk(50, -1).values[:, -1:], torch.finfo(logits.dtype).min)
            p = kept.softmax(-1)
            _, best = p.max(-1)
            confidence = (p * (p + 1e-10).log()).sum(-1)
            many = int(masked.sum()) if t == steps - 1 else int(masked.sum() * (1 - times[t + 1] / times[t]))
            if many:
                where = masked[0].nonzero()[:, 0][confidence.topk(many).indices]
                x[0, where] = best[confidence.topk(many).indices]
        rows.append(x)
    return torch.cat(rows)


Loop = Callable[[DiffusionLM, Tensor, int], Tensor]
LOOPS: dict[str, tuple[Loop, Callable[[int], str]]] = {  # name → (loop, our order)
    "llada": (llada_loop, lambda steps: f"llada({steps // (NEW // BLOCK)}, {BLOCK})"),
    "fast-dllm": (fast_dllm_loop, lambda steps: f"fast-dllm({CONFIDENT}, {BLOCK})"),
    "dream": (dream_loop, lambda steps: f"dream({steps})"),
}


# ------------------------------------------------------------------ ours, and the arithmetic alone


def ours(model: DiffusionLM, prompt: Tensor, order: str) -> Tensor:
    """Our `generate`, as any text goes through it."""
    blank = (MASK,) * NEW
    inputs = [Input(canvases=(Canvas((*row, *blank)),)) for row in prompt.tolist()]
    found = Generator(model).generate(inputs, Plan.of(order=order))
    return torch.tensor([some[0].ids for some in found])


class Products(DiffusionLM):
    """A model that writes down what it is asked for: the canvas of each pass, the rows of each use of its head."""

    asked: list[tuple[str, Tensor]]

    @classmethod
    def of(cls, model: DiffusionLM) -> Products:
        """One that shares all weights."""
        made = cls.__new__(cls)
        made.__dict__.update(model.__dict__)
        made.asked = []
        return made

    def hidden(self, context: Any, tokens: Tensor) -> Tensor:
        """A pass, noted."""
        self.asked.append(("pass", tokens.clone()))
        return super().hidden(context, tokens)

    def logits(self, hidden: Tensor) -> Tensor:
        """The head's use, noted."""
        self.asked.append(("head", hidden.clone()))
        return super().logits(hidden)

    @torch.inference_mode()
    def again(self) -> None:
        """The same passes and the same uses of the head, and nothing else."""
        for what, given in self.asked:
            if what == "pass":
                DiffusionLM.hidden(self, NoContext(), given)
            else:
                DiffusionLM.logits(self, given)


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    name: str
    corner: Corner
    ratio: float  # the published loop's time over ours
    limit: float  # … over that of the passes, and of the head at the positions that are read
    same: str

    @property
    def reached(self) -> float:
        """The share of the limit that is reached."""
        return self.ratio / self.limit


def measured(corner: Corner, name: str, repeats: int, note: Callable[[str], None]) -> Row:
    """One corner of one family: seconds of this process's own work, on one thread."""
    loop, order = LOOPS[name]
    model = small(corner, name)
    prompt = torch.randint(2, corner.vocabulary, (corner.prompts, PROMPT), generator=torch.Generator().manual_seed(1))
    recorder = Products.of(model)
    ours(recorder, prompt, order(corner.steps))
    sides = [
        Side("ours", lambda: ours(model, prompt, order(corner.steps))),
        Side("published", lambda: loop(model, prompt, corner.steps)),
        Side("products", recorder.again),
    ]
    a, b, c = interleaved(sides, repeats, note, time.process_time)
    same = int((a.output == b.output).all(-1).sum())
    return Row(name, corner, b.over(a), b.over(c), f"{same} of {corner.prompts}")


def table(rows: Iterable[Row]) -> str:
    """Markdown."""
    head = (
        "| loop | hidden | vocabulary | prompts | steps | times as fast | limit | of the limit | same texts |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
    )
    return head + "".join(
        f"| {r.name} | {r.corner.hidden:,} | {r.corner.vocabulary:,} | {r.corner.prompts} | {r.corner.steps} | "
        f"{r.ratio:.2f} | {r.limit:.2f} | {r.reached:.2f} | {r.same} |\n"
        for r in rows
    )


def report(repeats: int, note: Callable[[str], None], corners: tuple[Corner, ...] = CORNERS) -> str:
    """Every family at every corner."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = [measured(corner, name, repeats, note) for corner in corners for name in LOOPS]
    finally:
        torch.set_num_threads(threads)
    return (
        f"Random models of {LAYERS} layers, a prompt of {PROMPT} symbols and {NEW} new ones, blocks of {BLOCK}; "
        f"torch {torch.__version__}, one thread, the process's own time, sides in turn, the median of {repeats}. "
        "*Limit*: the same passes through the model, and its output matrix at the positions that are read, and nothing "
        "else.\n\n" + table(rows)
    )
