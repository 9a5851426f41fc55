"""The rule of a text, from the options that say one: an automaton over a model's symbols, made once and kept."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce
from operator import and_
from pathlib import Path
from typing import Any

from anyorder.core import Automaton
from anyorder.core.automaton import check_states
from anyorder.errors import RuleError
from anyorder.options import Options
from anyorder.text.rules.language import (
    ALL,
    Part,
    automaton_of,
    either,
    empty,
    literal,
    one_of,
    outside,
    repeated,
    sequence,
)
from anyorder.text.rules.pattern import pattern
from anyorder.text.rules.schema import any_object, automaton_for
from anyorder.text.rules.spelling import Spelling, encoded_lengths, lengths_said

RULES = ("pattern", "schema", "ban", "include", "keep", "glossary")
NUMBERS = r"\d+(?:[.,:/-]\d+)*"
NAMES = r"(?<!^)(?<![.!?…]\s)\b[^\W\d_a-zß-öø-ÿ]\w+"  # a word with a capital that no sentence begins with
LETTERS = ((48, 57), (65, 90), (95, 95), (97, 122), (0xC0, 0x24F), (0x370, 0x1FFF))  # of what a word is made
GROWTH = (1.0, 1.25, 1.5, 2.0)  # lengths that are tried, in shortest ones


def ruled(options: Options) -> bool:
    """Do options say a rule?"""
    return any(getattr(options, name) for name in RULES)


def rule_of(options: Options, spelling: Spelling, source: str | None = None) -> Automaton | None:
    """What a text must be, in a model's symbols; None: anything. `source` is what it translates."""
    parts = []
    if options.pattern is not None:
        parts.append(_symbols(spelling, "pattern", options.pattern))
    if options.schema is not None:
        parts.append(_symbols(spelling, "schema", str(options.schema)))
    if options.ban:
        parts += [_symbols(spelling, "ban", word) for word in options.ban]
    words = [*(options.include or ()), *(wanted(options, source) if source is not None else ())]
    parts += [_symbols(spelling, "include", word) for word in dict.fromkeys(words)]
    return _all(tuple(parts)) if parts else None


def wanted(options: Options, source: str) -> list[str]:
    """What a translation of `source` must have in it: what is kept, and its terms of the glossary."""
    found: list[str] = []
    for kind in options.keep or ():
        expression = {"numbers": NUMBERS, "names": NAMES}.get(kind, kind)
        try:
            found += [match.group() for match in re.finditer(expression, source) if match.group()]
        except re.error as error:
            raise RuleError(f"keep is numbers, names or a regular expression; {kind!r} is none: {error}") from None
    for term, target in options.glossary or ():
        if re.search(rf"(?<!\w){re.escape(term)}(?!\w)", source):
            found.append(target)
    return found


def said(schema: Any) -> str:
    """A schema from a dict, or a pydantic model, as JSON, its keys in their order."""
    if isinstance(schema, Path):
        return str(schema)
    schema = schema.model_json_schema() if hasattr(schema, "model_json_schema") else schema
    try:
        return json.dumps(schema, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise RuleError(f"a schema is JSON, a file, or a pydantic model: {error}") from None


def terms(glossary: Any) -> Any:
    """A glossary as pairs: from a mapping, or a file of `source TAB target`."""
    if isinstance(glossary, Path):
        return str(glossary)
    if not isinstance(glossary, Mapping) or not all(
        isinstance(x, str) and x for pair in glossary.items() for x in pair
    ):
        raise RuleError(f"a glossary is a file of `source TAB target`, or a dict of texts, not {glossary!r}")
    return tuple(glossary.items())


@lru_cache(maxsize=256)
def _symbols(spelling: Spelling, kind: str, said: str) -> Automaton:
    """One rule in a tokenizer's symbols."""
    if kind == "pattern":
        language = automaton_of(pattern(said))
    elif kind == "schema":
        schema = json.loads(said)
        language = automaton_of(any_object()) if schema == "object" else automaton_for(schema)
    else:
        language = automaton_of(having(said))
        if kind == "ban":
            language = ~language & automaton_of(repeated(one_of(ALL), 0, None))
    check_states(language.states)
    made = spelling.over_symbols(language)
    check_states(made.states)
    if made.empty:
        raise RuleError(f"no text of this model's symbols keeps the {kind} {_short(said)}")
    return made


@lru_cache(maxsize=256)
def _all(parts: tuple[Automaton, ...]) -> Automaton:
    made = reduce(and_, sorted(parts, key=lambda a: a.states))
    if made.empty:
        raise RuleError("no text keeps all of these rules at once: leave one of them out")
    return made


def having(word: str) -> Part:
    """The texts in which a word stands, with no letter or digit beside it where it begins or ends with one."""
    if not word.strip():
        raise RuleError("a word to ban or to include is empty: leave it out")
    anything, other = repeated(one_of(ALL), 0, None), one_of(outside(LETTERS))

    def letter(c: str) -> bool:
        return any(lo <= ord(c) <= hi for lo, hi in LETTERS)

    before = either([empty, sequence([anything, other])]) if letter(word[0]) else anything
    after = either([empty, sequence([other, anything])]) if letter(word[-1]) else anything
    return sequence([before, literal(word), after])


def lengths_tried(rule: Automaton, given: Sequence[int] | None, most: int) -> list[int]:
    """The lengths to try: of those given the ones that the rule's texts have; left out: a few, from the shortest on."""
    have = encoded_lengths(rule, most)
    if given is not None:
        some = [n for n in given if n in set(have)]
        if not some:
            said = f"{min(given)} to {max(given)}" if len(given) > 1 else f"{given[0]}"
            raise RuleError(f"no text of {said} symbols keeps the rule: {lengths_said(rule)}")
        return some
    if not have:
        raise RuleError(f"there is room for {most} symbols, and no such text keeps the rule: {lengths_said(rule)}")
    return list(dict.fromkeys(min(have, key=lambda n: abs(n - factor * have[0])) for factor in GROWTH))


def _short(said: str) -> str:
    return repr(said if len(said) <= 60 else said[:59] + "…")
