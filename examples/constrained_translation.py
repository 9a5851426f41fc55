"""Translation with fixed words: they stand on the canvas from the beginning, and the rest is written around them.

    python examples/constrained_translation.py

The core knows fixed words as positions that are not `open`. Where they stand and how long the sentence is are
searched over: every length that p(L|X) proposes, every place of the words in it, all as rows of one batch.
"""

import torch

import anyorder
from anyorder.core import begin, decode, pll
from anyorder.models.translation import Source

SOURCE, DIRECTION, WORDS = "Zwei Kinder spielen am Strand.", ("de", "en"), "little girls"

translator = anyorder.load("de-en-masked")
model, tokenizer = translator.model, translator.tokenizer
source = tokenizer.encode([SOURCE], DIRECTION[0])[0]
fixed = tokenizer.encode([WORDS], DIRECTION[1])[0]

# One row for each (length, place): the fixed tokens are written, everything else is ⟨mask⟩.
lengths, log_lengths = translator.lengths["-".join(DIRECTION)].propose(torch.tensor([len(source)]), 4)
rows, prior = [], []
for length, logp in zip(lengths[0].tolist(), log_lengths[0].tolist(), strict=True):
    for place in range(max(0, length - len(fixed)) + 1):
        row = [model.mask_id] * length
        row[place : place + len(fixed)] = fixed
        rows.append(row)
        prior.append(logp)
width = max(map(len, rows))
canvas = torch.tensor([row + [model.pad_id] * (width - len(row)) for row in rows])
usable = (canvas == model.mask_id).any(-1)  # a canvas that the fixed words fill has nothing to write
canvas, log_prior = canvas[usable], torch.tensor(prior)[usable]

a, b = (translator.languages.index(language) for language in DIRECTION)
context = model.encode(Source(torch.tensor([source] * len(canvas)), a, b))
state = begin(canvas, model.mask_id, model.pad_id, open=canvas == model.mask_id, score=log_prior)
special = {model.special.bos, model.special.eos, model.special.pad, model.special.unk, model.special.mask}
decoder = anyorder.Plan.of(order="easy-first").decoder(ban=tuple(special))
with torch.inference_mode():
    result = decode(model, context, state, decoder)
    # The path's score says nothing of the fixed words: candidates are ranked by log p of every word given all others.
    whole = begin(result.tokens, model.mask_id, model.pad_id, open=result.tokens != model.pad_id)
    mean = (pll(model, context, whole) + log_prior) / whole.length

print("free:", translator.translate(SOURCE, to=DIRECTION[1]).text)
for n in mean.argsort(descending=True)[:3].tolist():
    ids = [i for i in result.tokens[n].tolist() if i != model.pad_id]
    assert all(i in ids for i in fixed)
    print(f"with {WORDS!r}:", tokenizer.decode([ids], DIRECTION[1])[0], f"({mean[n]:.3f})")
