"""Texts under a rule: what is accepted gives valid text, always; what cannot be obeyed is refused by name."""

from __future__ import annotations

import itertools
import json
import random
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from cli_support import build_bert

import anyorder
from anyorder.core import Automaton
from anyorder.errors import PlanError, RuleError, TextError
from anyorder.options import Options
from anyorder.text.rules import numbers
from anyorder.text.rules.language import automaton_of
from anyorder.text.rules.pattern import pattern
from anyorder.text.rules.rule import having, rule_of, wanted
from anyorder.text.rules.schema import automaton_for
from anyorder.text.rules.spelling import Spelling, spelling_of


def accepts(automaton: Automaton, text: str) -> bool:
    return automaton.accepts(list(text.encode()))


def texts_of(automaton: Automaton, count: int, seed: int = 0, long: int = 120) -> list[str]:
    """Random texts of a language over bytes."""
    rng, table, accept = random.Random(seed), automaton.next.tolist(), automaton.accept.tolist()
    letters: dict[int, list[int]] = {}
    for byte, kind in enumerate(automaton.kind.tolist()):
        letters.setdefault(kind, []).append(byte)
    q, far = len(accept), [0 if ok else 10**6 for ok in accept]
    for _ in range(q):
        far = [min([far[s], *(far[row[s]] + 1 for row in table if row[s] < q)]) for s in range(q)]
    out = []
    for _ in range(count):
        text, state = bytearray(), 0
        while not accept[state] or (rng.random() > 0.2 and len(text) < long):
            ways = [(k, row[state]) for k, row in enumerate(table) if row[state] < q]
            if not ways:
                break
            kind, state = min(ways, key=lambda w: far[w[1]]) if len(text) > long else rng.choice(ways)
            text.append(rng.choice(letters[kind]))
        out.append(text.decode())
    return out


PATTERNS = [
    r"\d{4}-\d{2}-\d{2}", r"[a-z.]+@[a-z]+\.(com|org)", r"^(a|b)*c$", r"[^a-z]\W", r"(?:foo|bar)?x{2,4}", r"a.c",
    r"[\w-]+( [\w-]+)*", r"é+ü?", r"(?s).*b", r"€\d+", r"[А-Я]{2}", r"x*?y+?", r"^abc|abd$", r"\s\S", r"[\d\-x]{0,3}",
]  # fmt: skip


@pytest.mark.parametrize("expression", PATTERNS)
def test_a_pattern_is_what_python_matches(expression: str) -> None:
    made, rng = automaton_of(pattern(expression)), random.Random(0)
    assert all(re.fullmatch(expression, text) for text in texts_of(made, 30))
    plain = re.compile(expression, re.ASCII | (re.DOTALL if "(?s)" in expression else 0))
    for _ in range(300):
        text = "".join(rng.choice("abcdxyfor -019@.éüA€ЖЯ") for _ in range(rng.randrange(5)))
        if text.isascii() or "." not in expression:
            assert accepts(made, text) == bool(plain.fullmatch(text)) or not text.isascii()
            assert not accepts(made, text) or re.fullmatch(expression, text)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("(?=a)b", "looking ahead"), (r"a\b", r"\\b"), (r"(a)\1", "going back to a group"), ("(?i)a", "flags"),
        ("((a{9}){999}){99}", "100,000 parts"), ("(a|b)*a(a|b){18}", "too large"), ("[", "no regular expression"),
        ("a$b", "at the ends"), ("x" * 20_000, "10,000 are read"), ("(?>a+)a", "no part of a regular language"),
    ],
)  # fmt: skip
def test_what_is_no_regular_language_or_too_large_is_refused(expression: str, why: str) -> None:
    with pytest.raises(RuleError, match=why):
        automaton_of(pattern(expression))


def test_numbers_between_bounds_are_exact() -> None:
    from decimal import Decimal
    from fractions import Fraction

    rng = random.Random(0)
    for _ in range(25):
        low, high = sorted(rng.randint(-1500, 1500) for _ in range(2))
        made, m = automaton_of(numbers.whole(low, high)), rng.randint(2, 12)
        multiples = automaton_of(numbers.whole(low, high, m))
        for v in (low, high, low - 1, high + 1, 0, m * rng.randint(-100, 100)):
            assert accepts(made, str(v)) == (low <= v <= high)
            assert accepts(multiples, str(v)) == (low <= v <= high and v % m == 0)
        a, b = sorted(Decimal(rng.randint(-3000, 3000)).scaleb(-rng.randint(0, 3)) for _ in range(2))
        above, below = rng.random() < 0.5, rng.random() < 0.5
        made = automaton_of(numbers.decimal(Fraction(a), Fraction(b), above, below))
        for x in (a, b, Decimal(0), *(Decimal(rng.randint(-4000, 4000)).scaleb(-rng.randint(0, 4)) for _ in range(9))):
            text = f"{x:f}".removeprefix("-") if not x else f"{x:f}"
            assert accepts(made, text) == ((a < x if above else a <= x) and (x < b if below else x <= b))


def schemas(rng: random.Random, depth: int = 2) -> Any:
    """A random schema of what is obeyed."""
    kinds = ["string", "integer", "number", "boolean", "null", "enum", "const"] + ["object", "array", "anyOf"] * depth
    kind = rng.choice(kinds)
    if kind == "string":
        least = rng.randrange(3)
        return rng.choice([
            {"type": "string"}, {"type": "string", "minLength": least, "maxLength": least + rng.randrange(3)},
            {"type": "string", "pattern": rng.choice(["^[a-z]+$", "^a|b$", r"\d", "^(x|yz)*$", '"'])},
            {"type": "string", "format": rng.choice(["date", "time", "date-time", "uuid", "ipv4", "email"])},
        ])  # fmt: skip
    if kind == "integer":
        low = rng.randint(-50, 50)
        more = rng.choice([{}, {"multipleOf": rng.randint(1, 9)}, {"exclusiveMinimum": low - 1}])
        return {"type": "integer", "minimum": low, "maximum": low + rng.randint(20, 300), **more}
    if kind == "number":
        return rng.choice(
            [{"type": "number"}, {"type": "number", "minimum": -1.5, "exclusiveMaximum": round(rng.random() + 1, 3)}]
        )
    if kind == "enum":
        return {"enum": rng.sample(["a", "b\n", 1, 2.5, None, True, [1], {"x": "é"}], 3)}
    if kind == "const":
        return {"const": rng.choice(["x", 7, None, [], {"k": [1, 2]}])}
    if kind == "object":
        names = rng.sample(["a", "b", "name", 'qu"ote', "é"], rng.randrange(1, 4))
        made = {"type": "object", "properties": {n: schemas(rng, depth - 1) for n in names}}
        if rng.random() < 0.7:
            made["required"] = rng.sample(names, rng.randrange(len(names) + 1))
        return made | rng.choice([{}, {"additionalProperties": False}])
    if kind == "array":
        least = rng.randrange(3)
        made = {"type": "array", "items": schemas(rng, depth - 1), "minItems": least}
        return made | rng.choice([{}, {"maxItems": least + 1}])
    if kind == "anyOf":
        return {"anyOf": [schemas(rng, depth - 1), schemas(rng, depth - 1)]}
    return {"type": kind}


@pytest.mark.parametrize("seed", range(12))
def test_texts_of_random_schemas_parse_and_validate(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(3):
        schema = schemas(rng)
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
        for text in texts_of(automaton_for(schema), 6, seed):
            validator.validate(json.loads(text))


SPECIAL = [
    ({"$defs": {"n": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/n"}},
      "required": ["v"]}}, "$ref": "#/$defs/n"}, '{"v":1, "next": {"v":2}}'),
    ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "5"),
    ({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"type": "object", "properties": {"b": {"type": "null"}}}]}, '{"a":1,"b":null}'),
    ({"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": True, "minItems": 2}, "[3, 1]"),
    ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}], "items": False}, "[4,true]"),
    ({"type": ["string", "null"], "enum": ["a", None, 3]}, "null"),
    ({"type": "object", "required": ["z"]}, '{"z":{}}'),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, '{"k": 3,"l":4}'),
    ({"type": "integer", "exclusiveMinimum": 1.5, "maximum": 3}, "2"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "example"), SPECIAL, ids=range(len(SPECIAL)))
def test_what_schemas_say_in_other_ways(schema: Any, example: str) -> None:
    made = automaton_for(schema)
    assert accepts(made, example)
    for text in texts_of(made, 12):
        jsonschema.validate(json.loads(text), schema)


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        ({"not": {}}, "'not'"), ({"type": "array", "contains": {}}, "'contains'"), ({"if": {}}, "'if'"),
        ({"type": "string", "format": "regex"}, "format 'regex'"), ({"patternProperties": {}}, "'patternProperties'"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "'oneOf'"), ({"minProperties": 3}, "minProperties"),
        ({"type": "integer", "minimum": 5, "maximum": 3}, "contradicts itself"), ({"nullable": True}, "'nullable'"),
        ({"$ref": "http://x"}, "leads outside"), ({"type": "number", "multipleOf": 0.1}, "multipleOf"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"), ({"type": "x"}, "no type 'x'"), (3, "is an object"),
        ({"dependentRequired": {}}, "'dependentRequired'"), ({"type": "string", "pattern": "(?=a)"}, "looking ahead"),
        ({"$ref": "#/$defs/missing"}, "nothing at"), ({"type": "array", "minItems": 1e9}, "100,000 parts"),
    ],
)  # fmt: skip
def test_a_keyword_that_is_not_obeyed_is_refused_by_name(schema: Any, named: str) -> None:
    with pytest.raises(RuleError, match=named):
        automaton_for(schema)


# ---------------------------------------------------------------------- symbols


def byte_level() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    inner.train_from_iterator(['the date is 2024-05-06 and the café is open, é ü {"name": "x"}'] * 3, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=inner, mask_token="<mask>", pad_token="<pad>", unk_token="<unk>")


@pytest.fixture(scope="module")
def spellings() -> dict[str, tuple[Any, Spelling]]:
    ours, theirs = anyorder.load("de-en").tokenizer, byte_level()
    return {"ours": (ours, spelling_of(ours, len(ours))), "bytes": (theirs, spelling_of(theirs, len(theirs)))}


@pytest.mark.parametrize("name", ["ours", "bytes"])
def test_symbols_spell_what_the_tokenizer_says(spellings: dict[str, tuple[Any, Spelling]], name: str) -> None:
    tokenizer, spelling = spellings[name]
    known, rng = [i for i, p in enumerate(spelling.pieces) if p is not None], random.Random(0)
    for _ in range(100):
        ids = rng.choices(known, k=rng.randrange(1, 7))
        said = tokenizer.decode([ids], "en")[0] if name == "ours" else tokenizer.decode(ids)
        if "�" not in said:
            assert spelling.text(ids) == said.removeprefix(" ") or name == "ours"
            assert spelling.text(ids) == said or name == "bytes"


@pytest.mark.parametrize("name", ["ours", "bytes"])
@pytest.mark.parametrize("expression", [r"\d{4}-\d{2}", r"[a-zé]+( [a-zé]+)*", r"\{\"name\": \"[^\"]*\"\}", r" x| ?y"])
def test_an_automaton_over_symbols_accepts_what_its_text_does(
    spellings: dict[str, tuple[Any, Spelling]], name: str, expression: str
) -> None:
    tokenizer, spelling = spellings[name]
    made = spelling.over_symbols(automaton_of(pattern(expression)))
    for text in texts_of(automaton_of(pattern(expression)), 8, long=15):
        ids = tokenizer.encode([text], "en")[0] if name == "ours" else tokenizer.encode(text)
        assert spelling.text(ids) == text.removeprefix(" " * (name == "bytes")) or not text
        assert made.accepts(ids) == bool(re.fullmatch(expression, spelling.text(ids)))
    rng, known = random.Random(1), [i for i, p in enumerate(spelling.pieces) if p is not None]
    for _ in range(200):
        ids = rng.choices(known, k=rng.randrange(1, 4))
        assert made.accepts(ids) == bool(re.fullmatch(expression, spelling.text(ids), re.ASCII))


def test_word_pieces_are_joined_as_bert_takes_text_apart() -> None:
    words = ["the", "##m", "cat", "2", "##0", "-", ",", "é"]
    spelling = Spelling(tuple(w.removeprefix("##").encode() for w in words), "words", frozenset({1, 4}))
    assert spelling.text([0, 2, 6, 0, 1]) == "the cat,them"
    assert spelling.text([3, 4, 5, 3, 4]) == "20-20"
    for expression in (r"\d+-\d+", "the cat,?(the)?m?", "them( cat)*"):
        made = spelling.over_symbols(automaton_of(pattern(expression)))
        for n in range(1, 5):
            for ids in itertools.product(range(len(words)), repeat=n):
                fits = not any(i in (1, 4) and (k == 0 or words[ids[k - 1]] in "-,") for k, i in enumerate(ids))
                assert made.accepts(ids) == (fits and bool(re.fullmatch(expression, spelling.text(ids))))


def test_an_unknown_way_of_spelling_is_refused() -> None:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({"one": 0, "two": 1, "[UNK]": 2}, unk_token="[UNK]"))
    with pytest.raises(RuleError, match=r"how this tokenizer \(WordLevel\) spells text is not known"):
        spelling_of(PreTrainedTokenizerFast(tokenizer_object=inner), 3)


# ---------------------------------------------------------------------- words


def test_words_are_whole_words() -> None:
    made = automaton_of(having("art"))
    assert accepts(made, "art") and accepts(made, "the art.") and accepts(made, "„art“")
    assert not accepts(made, "part") and not accepts(made, "arté") and not accepts(made, "art2")
    assert accepts(automaton_of(having("-x")), "a-x") and not accepts(automaton_of(having("-x")), "a-xy")


def test_what_a_translation_keeps() -> None:
    options = Options(keep=("numbers", "names"), glossary=(("Hund", "hound"), ("Katze", "cat")))
    assert wanted(options, "Gestern sah Bernd 25,5 Meter vom Hund.") == ["25,5", "Bernd", "Meter", "Hund", "hound"]
    with pytest.raises(RuleError, match="'\\[' is none"):
        wanted(Options(keep=("[",)), "x")


# ---------------------------------------------------------------------- models


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> anyorder.LanguageModel:
    loaded = anyorder.load(build_bert(tmp_path_factory.mktemp("models") / "bert"))
    assert isinstance(loaded, anyorder.LanguageModel)
    return loaded


def test_texts_of_a_language_model_under_a_rule(writer: anyorder.LanguageModel) -> None:
    expression = r"the (cat|dog)( [a-z]+)*\."
    found = writer.generate(pattern=expression, n=6, seed=1)
    assert all(re.fullmatch(expression, f.text) for f in found) and len(found) == 6
    assert {len(f.ids) for f in writer.generate(length=range(4, 7), n=9, pattern=expression)} <= {4, 5, 6}
    for f in writer.generate("yesterday ", length=5, n=4, pattern="[a-z]+( [a-z]+)*", order="mask-predict(2)"):
        assert re.fullmatch("yesterday [a-z]+( [a-z]+)*", f.text)
    for f in writer.infill("the {} sat on {} .", pattern="(a|the) (cat|dog|mat)", n=3):
        assert re.fullmatch("the (a|the) (cat|dog|mat) sat on (a|the) (cat|dog|mat) .", f.text)
    for f in writer.fill("yesterday [MASK][MASK] ran .", n=3, ban="the", include="dog"):
        assert "dog" in f.text and "the" not in f.text.split()


def test_a_rule_without_a_text_of_that_length_is_an_error_before_the_first_step(writer: anyorder.LanguageModel) -> None:
    with pytest.raises(RuleError, match="no text of 3 symbols keeps the rule: its texts have 2 to 2 symbols"):
        writer.generate(length=3, pattern="the cat")
    with pytest.raises(RuleError, match="no text of this model's symbols keeps the pattern 'THE'"):
        writer.generate(pattern="THE")
    with pytest.raises(RuleError, match="no text of 1 symbols keeps the rule here: its texts have 2 to 2"):
        writer.fill("the [MASK] sat .", pattern="the cat")
    with pytest.raises(RuleError, match="there is room for 5 symbols"):
        writer.generate(pattern="(a ){9}cat", longest=5)
    with pytest.raises(TextError, match="has no length of its own"):
        writer.generate()
    with pytest.raises(PlanError, match="polish knows nothing of a rule"):
        anyorder.load("de-en-masked").translate("Ein Hund.", to="en", pattern="a", polish=1, rescore="ar")


def test_translations_under_a_rule(tmp_path: Path) -> None:
    masked, text = anyorder.load("de-en-masked"), "Ein Hund läuft 25 Meter durch den Schnee."
    alone = masked.translate(text, to="en").text
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("Hund\thound\nKatze\tfeline\n", encoding="utf-8")
    for options, fits in (
        ({"include": "Bernd"}, r".*\bBernd\b.*"), ({"ban": ["dog", "snow"]}, r"((?!\bdog\b|\bsnow\b).)*"),
        ({"pattern": r"[A-Z][a-z ]+\.", "order": "mask-predict(4)"}, r"[A-Z][a-z ]+\."),
        ({"keep": "numbers"}, ".*25.*"), ({"glossary": glossary}, r".*\bhound\b.*"),
        ({"pattern": r"\d{4}-\d\d", "order": "forwards"}, r"\d{4}-\d\d"),
        ({"include": "Bernd", "beam": 2, "lengths": 2}, r".*\bBernd\b.*"),
    ):  # fmt: skip
        assert re.fullmatch(fits, masked.translate(text, to="en", **options).text), options  # type: ignore[call-overload]
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    jsonschema.validate(json.loads(masked.translate(text, to="en", schema=schema).text), schema)
    assert masked.translate(text, to="en").text == alone


def test_rules_are_made_once(spellings: dict[str, tuple[Any, Spelling]]) -> None:
    _, spelling = spellings["ours"]
    options = Options(pattern=r"\d+", ban=("a",))
    first = rule_of(options, spelling)
    assert first is not None and first is rule_of(Options(pattern=r"\d+", ban=("a",)), spelling)
    assert torch.equal(first.accept, first.accept)
