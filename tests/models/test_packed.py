"""Texts that are packed into one row are read as each is alone."""

from __future__ import annotations

import torch

from anyorder.models.architecture import Architecture
from anyorder.models.transformer import PACK, Transformer, encoded


def test_a_pack_is_read_as_its_texts_are_alone() -> None:
    torch.manual_seed(0)
    encoder = Transformer(Architecture(50, 16, 2, 2, 32)).eval()
    lengths = torch.tensor([9, 3, 14, 1])
    real = torch.arange(14) < lengths[:, None]
    tokens, languages = torch.randint(5, 50, real.shape).masked_fill(~real, 2), torch.tensor([[0], [1], [0], [1]])
    assert int(real.sum()) <= PACK
    with torch.inference_mode():
        together = encoded(encoder, tokens, real, languages)
        for n, length in enumerate(lengths.tolist()):
            alone = encoder(tokens[n : n + 1, :length], None, languages[n : n + 1])
            torch.testing.assert_close(together[n, :length], alone[0], atol=1e-5, rtol=1e-5)
        padded = encoder(tokens, None, languages, real[:, None, None])
    torch.testing.assert_close(together[real], padded[real], atol=1e-5, rtol=1e-5)
