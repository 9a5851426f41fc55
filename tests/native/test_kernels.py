"""Kernels in C compute what torch computes, whatever the number of rows, and get out of its way where they cannot."""

from __future__ import annotations

import copy
import pickle
import platform
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.core import Cost, Reader, Symbols, begin
from anyorder.errors import ModelError
from anyorder.models.architecture import Architecture
from anyorder.models.autoregressive import Autoregressive
from anyorder.models.cmlm import ConditionalMasked
from anyorder.models.layout import as_read
from anyorder.models.masked_translation import MaskedTranslation
from anyorder.models.transformer import Columns, encoded
from anyorder.models.translation import Source, SpecialIds
from anyorder.native import InPanels, InSteps, Stack, kernels, library, using
from anyorder.native.panels import LARGE

PAD, MASK = 2, 4
needs_kernels = pytest.mark.skipif(kernels() is None, reason="no kernels were compiled, or not for this machine")


def key_mask(lengths: torch.Tensor, width: int) -> torch.Tensor | None:
    """Lengths (N,) → (N, 1, 1, width) true where a key is real; None when all are."""
    visible = torch.arange(width) < lengths[:, None]
    return None if bool(visible.all()) else visible[:, None, None]


def test_kernels_are_there_where_they_can_be() -> None:
    if platform.machine() != "x86_64" or not shutil.which("cc") or not Path("/proc/cpuinfo").exists():
        pytest.skip("nothing to compile with, or not known whether this machine has AVX2")
    flags = Path("/proc/cpuinfo").read_text("utf-8").split()
    assert (kernels() is not None) == ("avx2" in flags and "fma" in flags), "pip install -e . compiles them"


@pytest.mark.parametrize("what", ["missing", "damaged", "another", "older"])
def test_a_library_that_is_not_ours_is_not_used(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "_kernels.so"
    file.write_bytes(b"no library")
    origin = {"missing": None, "damaged": str(file), "another": torch._C.__file__}.get(what)
    if what == "older":
        if kernels() is None:
            pytest.skip("there is none")
        monkeypatch.setattr(library, "VERSION", library.VERSION + 1)
    else:
        monkeypatch.setattr(library, "find_spec", lambda name: SimpleNamespace(origin=origin))
    library._library.cache_clear()
    assert kernels() is None
    monkeypatch.undo()
    library._library.cache_clear()


def linear(inputs: int, outputs: int) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(inputs, outputs).requires_grad_(False)


@needs_kernels
@pytest.mark.parametrize(("inputs", "outputs"), [(24, 16), (7, 64), (192, 80), (1, 144)])
@torch.inference_mode()
def test_a_linear_map_is_the_same_for_any_number_of_rows(inputs: int, outputs: int) -> None:
    plain = linear(inputs, outputs)
    ours, x = InPanels.of(plain), torch.randn(20, inputs)
    whole = ours(x)
    torch.testing.assert_close(whole, F.linear(x, plain.weight, plain.bias))
    for rows in range(1, 14):
        assert torch.equal(ours(x[:rows]), whole[:rows])  # to the last bit: a result does not depend on the batch
    assert torch.equal(ours(x[3]), whole[3])
    assert torch.equal(ours(x.view(4, 5, inputs)), whole.view(4, 5, outputs))
    assert torch.equal(ours(x.t().contiguous().t()), whole)
    assert ours(x[:0]).shape == (0, outputs)


@needs_kernels
@torch.inference_mode()
def test_some_of_the_outputs() -> None:
    ours, x = InPanels.of(linear(24, 96)), torch.randn(5, 24)
    assert torch.equal(ours.part(x, 32, 80), ours(x)[:, 32:80])


@needs_kernels
def test_torch_computes_what_is_nothing_for_a_kernel() -> None:
    plain = nn.Linear(16, 32)
    ours, x = InPanels.of(plain), torch.randn(3, 16)
    ours(x).sum().backward()  # a gradient
    assert plain.weight.grad is not None and plain.weight.grad.abs().sum() > 0
    with torch.no_grad(), using(None):
        assert torch.equal(ours(x), F.linear(x, plain.weight, plain.bias))
    with torch.no_grad():
        assert torch.equal(ours.double()(x.double()), F.linear(x.double(), plain.weight, plain.bias))
    assert not InPanels.possible(nn.Linear(16, 24)) and not InPanels.possible(nn.Linear(16, 32, bias=False))
    assert not InPanels.possible(nn.Linear(16, 32).double())


@needs_kernels
@torch.inference_mode()
def test_large_products_are_shared_among_threads() -> None:
    ours, threads = InPanels.of(linear(512, 512)), torch.get_num_threads()
    x, banned = torch.randn(3 * LARGE // 512**2 + 1, 512), torch.tensor([3])
    found = []
    try:
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            best = ours.best(x, banned, -1e4)
            assert best is not None
            found.append((ours(x), *best[:4]))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for some in found[1:] for a, b in zip(found[0], some, strict=True))


@needs_kernels
@torch.no_grad()
def test_changed_weights_are_laid_anew() -> None:
    ours, x = InPanels.of(linear(24, 32)), torch.randn(2, 24)
    before = ours(x)
    other = copy.deepcopy(ours)
    other.weight.mul_(2)
    assert torch.equal(ours(x), before)
    torch.testing.assert_close(other(x), 2 * before - ours.bias)
    ours.weight.data = other.weight.data
    assert torch.equal(ours(x), other(x))


@needs_kernels
@pytest.mark.parametrize("rows", [1, 5, 130])
@torch.inference_mode()
def test_the_best_symbol_and_what_is_known_of_the_others(rows: int) -> None:
    head, x, banned = InPanels.of(linear(24, 1296)), 8 * torch.randn(rows, 24), torch.tensor([0, 511, 512, 1295])
    now = torch.randint(1296, (rows,))
    now[0], now[-1] = 511, 1296  # a banned one, and one that has no logit
    found = head.best(x, banned, -1e4, now)
    assert found is not None and found.current is not None
    logits = F.linear(x, head.weight, head.bias)
    everything = F.pad(logits.log_softmax(-1), (0, 1), value=-torch.inf)
    torch.testing.assert_close(found.current, everything.gather(1, now[:, None])[:, 0])
    logits = logits.index_fill(1, banned, -1e4)
    logp = logits.log_softmax(-1)
    assert torch.equal(found.token, logits.argmax(-1))
    torch.testing.assert_close(found.logp, logp.amax(-1))
    torch.testing.assert_close(found.log_sum, logits.logsumexp(-1))
    torch.testing.assert_close(found.entropy, -(logp.exp() * logp).sum(-1), rtol=1e-5, atol=1e-5)
    alone = head.best(x[-1:], banned, -1e4)
    assert alone is not None and alone.current is None
    assert all(torch.equal(a[0], b[-1]) for a, b in zip(alone[:6], found[:6], strict=True))


@needs_kernels
@pytest.mark.parametrize("several", [1, 4, 64])
@torch.inference_mode()
def test_several_of_the_best_are_told_in_order(several: int) -> None:
    head, x, banned = InPanels.of(linear(24, 1296)), 8 * torch.randn(130, 24), torch.tensor([0, 511, 512, 1295])
    head.weight[700] = head.weight[100] = head.weight[3]  # of equal ones the first is the best
    head.bias[700] = head.bias[100] = head.bias[3]
    found, alone = head.best(x, banned, -1e4, None, several), head.best(x[5:7], banned, -1e4, None, several)
    assert found is not None and alone is not None
    logp = head(x).index_fill(1, banned, -1e4).log_softmax(-1)
    value, token = (part[:, :several] for part in logp.sort(dim=-1, descending=True, stable=True))
    assert torch.equal(found.tokens, token)
    torch.testing.assert_close(found.logps, value)
    assert torch.equal(found.tokens[:, 0], found.token) and torch.equal(found.logps[:, 0], found.logp)
    assert all(torch.equal(a, b[5:7]) for a, b in ((alone.tokens, found.tokens), (alone.logps, found.logps)))
    assert head.best(x, banned, -1e4, None, 65) is None  # more are for torch


def hard(what: str, x: Tensor, head: InPanels) -> Tensor:
    """States and weights that bounds of logits say little about, or that have no bounds."""
    if what == "alike":  # every symbol has a twin …
        head.weight[648:], head.bias[648:] = head.weight[:648], head.bias[:648]
    if what == "equal":  # … or all are the same
        head.weight[:], head.bias[:] = head.weight[0], 0
    if what == "nearly":
        head.weight[:] = head.weight[0] + 1e-6 * torch.randn_like(head.weight)
    if what == "faint":  # squares of such numbers are none in float32
        head.bias[:] = 0
    if what == "outliers":
        x[:, 3] *= 1e4
        head.weight[:, 5] *= 1e3
    scale = {"large": 1e8, "small": 1e-30, "faint": 1e-24, "nothing": 0.0}.get(what, 8.0)
    return scale * x


@needs_kernels
@pytest.mark.parametrize(
    "what", ["plain", "alike", "equal", "nearly", "outliers", "large", "small", "faint", "nothing", "biases"]
)
@torch.no_grad()
def test_the_likeliest_symbol_is_the_best_one_to_the_last_bit(what: str) -> None:
    banned = torch.tensor([-1, 0, 511, 512, 1295, 1296])
    head = InPanels.of(linear(24, 1296))
    if what == "biases":
        head.bias.mul_(1e6)
    x = hard(what, torch.randn(130, 24), head)
    best, found = head.best(x, banned, -1e4), head.likeliest(x, banned)
    assert best is not None and found is not None
    assert torch.equal(found[0], best.token)
    logits = head(x).index_fill(1, torch.tensor([0, 511, 512, 1295]), -torch.inf)
    assert torch.equal(found[1], logits.amax(-1))
    for rows in (1, 3, 4, 61):  # whatever else is in the batch
        some = head.likeliest(x[:rows], banned)
        assert some is not None and all(torch.equal(a, b[:rows]) for a, b in zip(some, found, strict=True))


@needs_kernels
@torch.no_grad()
def test_where_no_symbol_is_likely_it_is_said() -> None:
    head, x, everything = InPanels.of(linear(24, 48)), torch.randn(2, 24), torch.arange(48)
    found = head.likeliest(x, everything)
    assert found is not None and float(found[1].max()) < -1e4
    x[1, 7] = torch.nan
    found = head.likeliest(x, everything[:1])
    assert found is not None and found[1].isfinite().tolist() == [True, False]
    assert InPanels.of(linear(7, 64)).likeliest(torch.randn(2, 7), everything[:1]) is None  # inputs come by eight
    head.weight[3, 3] = torch.inf
    assert head.likeliest(x, everything[:1]) is None


@needs_kernels
@torch.inference_mode()
def test_bans_of_symbols_that_there_are_not_change_nothing() -> None:
    head, x, now = InPanels.of(linear(24, 528)), torch.randn(3, 24), torch.tensor([7, 500, 2])
    some, none = (head.best(x, torch.tensor(bans), -1e4, now) for bans in ([-1, 3, 528, 900], [3]))
    assert some is not None and none is not None
    assert all(torch.equal(a, b) for a, b in zip(some, none, strict=True))  # type: ignore[arg-type]


@needs_kernels
@torch.inference_mode()
def test_another_width_is_torchs_error_and_no_rows_are_no_error() -> None:
    ours = InPanels.of(linear(24, 32))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        ours(torch.randn(3, 23))
    assert ours.best(torch.randn(3, 23), torch.tensor([1]), -1e4) is None
    _, whole = model(Autoregressive)
    assert whole.encoder(torch.zeros(0, 5, dtype=torch.int64), None, torch.zeros(0, 1, dtype=torch.int64)).shape == (
        0,
        5,
        32,
    )


@needs_kernels
@torch.inference_mode()
def test_threads_that_come_first_at_once() -> None:
    x = torch.randn(7, 192)
    for _ in range(20):
        ours = InPanels.of(linear(192, 512))
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(torch.inference_mode()(ours.forward), [x] * 8))
        torch.testing.assert_close(found, [F.linear(x, ours.weight, ours.bias)] * 8)


@needs_kernels
@torch.inference_mode()
def test_of_equal_symbols_the_first_is_the_best_and_what_is_no_number_is_seen() -> None:
    head, x = InPanels.of(linear(24, 1040)), torch.randn(3, 24)
    head.weight[700] = head.weight[900] = 9 * x[0]
    head.bias[700] = head.bias[900] = 0.0
    spoilt = torch.stack([x[0], torch.full((24,), torch.nan), torch.full((24,), torch.inf)])
    found = head.best(spoilt, torch.tensor([], dtype=torch.int64), -1e4)
    assert found is not None and int(found.token[0]) == 700
    assert found.log_sum.isfinite().tolist() == [True, False, False]


def model(kind: type, norm: str = "post", **more: object) -> tuple[nn.Module, nn.Module]:
    """The same model as it is and as it is loaded."""
    torch.manual_seed(0)
    sizes = Architecture(48, 32, 3, 4, 80, positions=160, norm=norm, **more)  # type: ignore[arg-type]
    plain = kind(sizes, SpecialIds(0, 1, PAD, 3, MASK), ("de", "en")).eval().requires_grad_(False)
    return plain, as_read(copy.deepcopy(plain))


def ragged(lengths: list[int]) -> Tensor:
    out = torch.full((len(lengths), max(lengths)), PAD)
    for n, length in enumerate(lengths):
        out[n, :length] = torch.randint(5, 48, (length,))
    return out


@needs_kernels
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("lengths", [[9], [5, 5, 5], [3, 140, 1, 7], [11] * 40])
@torch.inference_mode()
def test_texts_are_encoded_as_by_torch(norm: str, lengths: list[int]) -> None:
    plain, ours = (m.encoder for m in model(Autoregressive, norm))
    assert Stack.of(ours) is not None and Stack.of(plain) is None
    tokens = ragged(lengths)
    real = tokens != PAD
    languages = torch.zeros(len(lengths), 1, dtype=torch.int64)
    expected = plain(tokens, None, languages, key_mask(real.sum(1), tokens.shape[1]))
    found = encoded(ours, tokens, real, languages)
    torch.testing.assert_close(found[real], expected[real], rtol=1e-5, atol=1e-5)
    for n, length in enumerate(lengths):  # to the last bit: a text does not depend on those beside it
        alone = encoded(ours, tokens[n : n + 1, :length], real[n : n + 1, :length], languages[:1])
        assert torch.equal(alone[0], found[n, :length])


@needs_kernels
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("lengths", [[5], [5, 5, 5], [5, 2, 7], [1, 6, 3, 3, 7, 2] * 25])
@torch.inference_mode()
def test_a_step_is_the_one_by_torch(norm: str, lengths: list[int]) -> None:
    plain, ours = model(Autoregressive, norm)
    rows = len(lengths)
    source = Source(ragged([6 - n % 3 for n in range(rows)]), 0, 1)
    target = torch.randint(5, 48, (rows, 8))
    contexts = [m.encode(source) for m in (plain, ours)]
    for behind in (2, 1, 0):
        tokens = torch.full_like(target, MASK)
        for n, length in enumerate(lengths):
            tokens[n, : max(0, length - behind)] = target[n, : max(0, length - behind)]
        expected, found = (m.hidden(c, tokens) for m, c in zip((plain, ours), contexts, strict=True))
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert Stack.of(ours.decoder) is not None and Stack.of(plain.decoder) is None


SOME = torch.tensor([[0, 3, 3], [6, 1, 2], [4, 4, 4], [5, 0, 6]])


@needs_kernels
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize(
    ("what", "columns"),
    [("causal", None), *((what, some) for what in ("all", "keys", "sight") for some in (None, (2, 5), SOME))],
)
@torch.inference_mode()
def test_canvases_are_passed_as_by_torch(norm: str, what: str, columns: Columns) -> None:
    plain, ours = model(Autoregressive, norm)
    states, real = torch.randn(4, 5, 32), key_mask(torch.tensor([5, 3, 1, 4]), 5)
    memory = [m.decoder.memory(states, real) for m in (plain, ours)]
    tokens, languages = torch.randint(5, 48, (4, 7)), torch.ones(4, 1, dtype=torch.int64)
    sight = (torch.rand(4, 1, 7, 7) < 0.5) | torch.eye(7, dtype=torch.bool)
    mask = {"all": None, "causal": None, "keys": key_mask(torch.tensor([7, 2, 5, 1]), 7), "sight": sight}[what]
    expected, found = (
        m.decoder(tokens, None, languages, mask, what == "causal", kept, columns=columns)
        for m, kept in zip((plain, ours), memory, strict=True)
    )
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@needs_kernels
@pytest.mark.parametrize("kind", [Autoregressive, ConditionalMasked, MaskedTranslation])
@torch.inference_mode()
def test_a_loaded_model_is_the_same_function(kind: type) -> None:
    plain, ours = model(kind)
    source, tokens = Source(ragged([4, 6, 2]), 0, 1), torch.randint(5, 48, (3, 7))
    expected, found = (m.hidden(m.encode(source), tokens) for m in (plain, ours))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.logits(found[0]), plain.logits(expected[0]), rtol=1e-5, atol=1e-5)
    with using(None):
        by_torch = ours.hidden(ours.encode(source), tokens)
    torch.testing.assert_close(by_torch, expected, rtol=1e-5, atol=1e-5)


@needs_kernels
@torch.inference_mode()
def test_other_arithmetic_is_left_to_torch() -> None:
    _, tanh = model(Autoregressive, gelu="tanh")
    _, double = model(Autoregressive)
    assert Stack.of(tanh.encoder) is None and Stack.of(double.double().encoder) is None
    torch.manual_seed(0)
    narrow = Autoregressive(Architecture(48, 16, 1, 4, 32), SpecialIds(), ("de", "en"))
    assert Stack.of(as_read(narrow.requires_grad_(False)).encoder) is None  # heads of 4 numbers


@needs_kernels
@torch.inference_mode()
def test_a_look_sees_what_it_sees_by_torch() -> None:
    plain, ours = model(ConditionalMasked)
    tokens = torch.tensor([[MASK, 7, 8, MASK], [9, MASK, MASK, PAD]])
    state, reads = begin(tokens, MASK, PAD), frozenset({"entropy", "current", "logp"})
    source, views = Source(ragged([4, 6]), 0, 1), []
    for m in (plain, ours):
        reader = Reader(m, Symbols(ban=(0, 1, PAD, 3)), Cost())
        views.append(reader.look(m.encode(source), state, tokens != PAD, reads=reads))
    expected, found = views
    assert torch.equal(found.token, expected.token)
    for name in ("logp", "entropy", "current"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=1e-5, atol=1e-5)


@needs_kernels
@pytest.mark.parametrize("top", [1, 3, 48, 50])
@torch.inference_mode()
def test_the_best_symbols_of_a_look_are_torchs(top: int) -> None:
    """48 symbols: of the best 50 there are 48, of which those that may not be written are impossible."""
    plain, ours = model(ConditionalMasked)
    tokens, ban = torch.tensor([[MASK, 7, 8, MASK], [9, MASK, MASK, PAD]]), (0, 1, PAD, 3)
    state, source, views = begin(tokens, MASK, PAD), Source(ragged([4, 6]), 0, 1), []
    for m in (plain, ours):
        reader = Reader(m, Symbols(ban=ban), Cost(), at_most=True)
        views.append(reader.look(m.encode(source), state, state.masked, reads=frozenset({"entropy"}), top=top))
    expected, found = views
    assert found.top_token is not None and expected.top_token is not None and found.top_logp is not None
    there = expected.top_logp > -torch.inf  # type: ignore[operator]
    assert torch.equal(found.top_token[there], expected.top_token[there])
    torch.testing.assert_close(found.top_logp, expected.top_logp)
    with pytest.raises(ValueError, match="best symbols of a vocabulary of 48"):
        Reader(ours, Symbols(ban=ban), Cost()).look(ours.encode(source), state, state.masked, top=50)


@needs_kernels
@torch.inference_mode()
def test_a_model_that_gives_no_numbers_is_found_out() -> None:
    _, ours = model(ConditionalMasked)
    reader, state = Reader(ours, Symbols(), Cost()), begin(torch.full((2, 3), MASK), MASK, PAD)
    context = ours.encode(Source(ragged([4, 6]), 0, 1))
    reader.look(context, state, state.masked)
    ours.decoder.ffns[1].lin2.bias[3] = torch.nan
    for reader.scored in (True, False):
        with pytest.raises(ModelError, match="row 0, position 0, step 0: the model's logits are not finite"):
            reader.look(context, state, state.masked)


def twice(w: torch.Tensor) -> None:
    w.mul_(2)


def one_number(w: torch.Tensor) -> None:
    w[3, 5] = 9.0


@needs_kernels
@pytest.mark.parametrize("edit", [twice, one_number])
@pytest.mark.parametrize("kind", [InPanels, InSteps])
def test_an_edit_through_data_is_seen(kind: type[InPanels], edit: Callable[[torch.Tensor], None]) -> None:
    """torch does not count it, and norms of new weights beside panels of old ones find wrong symbols."""
    torch.manual_seed(0)
    plain = torch.nn.Linear(24, 48)
    ours, x, banned = kind.of(plain), torch.randn(7, 24), torch.tensor([0])
    with torch.no_grad():
        before = ours(x), ours.likeliest(x, banned), ours.best(x, banned, -1e4)
        for _ in range(2):
            edit(ours.weight.data)
            fresh = torch.nn.Linear(24, 48)
            fresh.load_state_dict({"weight": ours.weight.detach().clone(), "bias": ours.bias.detach()})
            new = kind.of(fresh)
            assert torch.equal(ours(x), new(x)) and not torch.equal(ours(x), before[0])
            for found, expected in ((ours.likeliest(x, banned), new.likeliest(x, banned)),):
                assert found is not None and expected is not None and all(map(torch.equal, found, expected))
            best, other = ours.best(x, banned, -1e4), new.best(x, banned, -1e4)
            assert best is not None and other is not None and torch.equal(best.logp, other.logp)


@needs_kernels
def test_watched_weights_are_copied_and_sent_as_plain_ones() -> None:
    ours = InPanels.of(torch.nn.Linear(24, 48))
    ours.weight.data.mul_(2)
    with torch.no_grad():
        for other in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
            x = torch.randn(3, 24)
            assert torch.equal(other.weight, ours.weight) and torch.equal(other(x), ours(x))
