"""Published BLEU of constant-time translation, as the paper's appendix gives them (WMT'14: other data than ours)."""

from __future__ import annotations

# (model, En→De, De→En); None where none was given
COMPARISON: tuple[tuple[str, float | None, float | None], ...] = (
    ("AR Transformer-base (Vaswani et al. 2017)", 27.30, None),
    ("AR (Gu et al. 2018)", 23.4, None),
    ("NAR (+Distill +FT +NPD S=100)", 21.61, None),
    ("AR (Lee et al. 2018)", 24.57, 28.47),
    ("Adaptive NAR Model", 16.56, None),
    ("Adaptive NAR Model (+Distill)", 21.54, 25.43),
    ("AR (Wang et al. 2019)", 27.3, 31.29),
    ("NAT-REG (+Distill)", 20.65, 24.77),
    ("NAT-REG (+Distill +AR rescoring)", 24.61, 28.90),
    ("AR (Ghazvininejad et al. 2019)", 27.74, 31.09),
    ("CMLM with 4 iterations", 22.25, None),
    ("CMLM with 4 iterations (+Distill)", 25.94, 29.90),
    ("CMLM with 10 iterations", 24.61, None),
    ("CMLM with 10 iterations (+Distill)", 27.03, 30.53),
    ("AR (Shu et al. 2019)", 26.1, None),
    ("Latent-Variable NAR", 11.8, None),
    ("Latent-Variable NAR (+Distill)", 22.2, None),
    ("Latent-Variable NAR (+Distill +AR Rescoring)", 25.1, None),
    ("AR (Ma et al. 2019)", 27.16, 31.44),
    ("FlowSeq-base (+NPD n = 30)", 21.15, 26.04),
    ("FlowSeq-base (+Distill +NPD n = 30)", 23.48, 28.40),
    ("AR (the paper)", 26.84, 30.92),
    ("Constant-time 10 iterations (the paper)", 21.98, 27.14),
    ("Constant-time 10 iterations (+AR Rescoring, the paper)", 24.53, 28.63),
    ("Constant-time 20 iterations (the paper)", 23.92, 28.54),
    ("Constant-time 20 iterations (+AR Rescoring, the paper)", 25.69, 30.13),
)
