"""JSON Schema as languages of texts: every text parses and validates. What is not obeyed is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from anyorder.core import Automaton
from anyorder.errors import RuleError
from anyorder.text.rules import numbers
from anyorder.text.rules.language import (
    ALL,
    Builder,
    Part,
    Ranges,
    automaton_of,
    common,
    either,
    empty,
    literal,
    nothing,
    one_of,
    outside,
    repeated,
    sequence,
    within,
)
from anyorder.text.rules.pattern import found_in, pattern

DEPTH = 3  # levels to which a schema that refers to itself, or any value at all, is followed
MOST_ORDERS = 5  # values whose orders without repetition are written out
KINDS = ("null", "boolean", "integer", "number", "string", "array", "object")
NOTES = {
    "$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default", "examples", "deprecated",
    "readOnly", "writeOnly", "$anchor",
}  # fmt: skip
OBEYED: dict[str, tuple[str, ...]] = {  # which kinds of value a keyword is about
    "minimum": ("integer", "number"), "maximum": ("integer", "number"), "exclusiveMinimum": ("integer", "number"),
    "exclusiveMaximum": ("integer", "number"), "multipleOf": ("integer", "number"),
    "minLength": ("string",), "maxLength": ("string",), "pattern": ("string",), "format": ("string",),
    "items": ("array",), "prefixItems": ("array",), "additionalItems": ("array",), "minItems": ("array",),
    "maxItems": ("array",), "uniqueItems": ("array",),
    "properties": ("object",), "required": ("object",), "additionalProperties": ("object",),
    "minProperties": ("object",), "maxProperties": ("object",),
}  # fmt: skip
EVERYWHERE = {"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"}
FORMATS = {
    "date": r"(19|20)\d\d-((0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)",
    "time": r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(Z|[+-]([01]\d|2[0-3]):[0-5]\d)",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    "ipv4": r"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)",
    "email": r"[a-z0-9_]+([.-][a-z0-9_]+)*@[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*)*\.[a-z]{2,}",
}
FORMATS["date-time"] = f"({FORMATS['date']})T({FORMATS['time']})"
PLAIN = outside([(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)])
ESCAPED = {8: "b", 9: "t", 10: "n", 12: "f", 13: "r", 0x22: '"', 0x5C: "\\"}
SPACE = repeated(literal(" "), 0, 1)


def valid(schema: Any) -> Part:
    """The JSON texts that are valid under a schema, their properties in its order."""
    return _Reader(schema).value(schema, "schema", {})


def any_object(depth: int = 2) -> Part:
    """JSON objects that are nested no deeper than so many levels."""
    return _Reader({}).anything(depth, ("object",))


def character(ranges: Ranges) -> Part:
    """One character of these within a JSON string."""
    parts = [one_of(common(ranges, PLAIN))]
    for point, letter in ESCAPED.items():
        if any(lo <= point <= hi for lo, hi in ranges):
            parts.append(literal("\\" + letter))
    for point in range(0x20):
        if point not in ESCAPED and any(lo <= point <= hi for lo, hi in ranges):
            parts.append(literal(f"\\u{point:04x}"))
    return either(parts)


def _quoted(inner: Part) -> Part:
    return sequence([literal('"'), inner, literal('"')])


TEXT = _quoted(repeated(either([one_of(PLAIN), *(literal("\\" + x) for x in ESCAPED.values())]), 0, None))


def _said(value: Any) -> Part:
    """A value itself."""
    return literal(json.dumps(value, ensure_ascii=False))


class _Reader:
    """One schema, with what its references point to."""

    def __init__(self, root: Any) -> None:
        self.root = root

    def value(self, schema: Any, where: str, seen: Mapping[str, int]) -> Part:
        """The texts of the values that a schema allows; `seen`: how often each reference was followed on the way."""
        if schema is True or schema == {}:
            return self.anything(DEPTH - 1)
        if schema is False:
            return nothing
        schema, seen = self._resolved(schema, where, seen)
        if schema is None:  # followed too often: deeper texts are left out
            return nothing
        for branches, name in ((schema.get("anyOf"), "anyOf"), (schema.get("oneOf"), "oneOf")):
            if branches is None:
                continue
            rest = {k: v for k, v in schema.items() if k != name and k not in NOTES}
            each = [self._merged([rest, b], f"{where}.{name}") for b in self._list(branches, f"{where}.{name}")]
            if name == "oneOf":
                self._check_apart(each, where, seen)
            return either(self.value(one, f"{where}.{name}", seen) for one in each)
        if "const" in schema or "enum" in schema:
            return self._values(schema, where, seen)
        kinds = self._kinds(schema, where)
        return either(self._kind(kind, schema, where, seen) for kind in kinds)

    # ------------------------------------------------------------------ what a schema says

    def _resolved(self, schema: Any, where: str, seen: Mapping[str, int]) -> tuple[Any, Mapping[str, int]]:
        """A schema with its reference and its allOf put in place; None: a reference that was followed too often."""
        if isinstance(schema, bool):
            return ({} if schema else {"enum": []}), seen
        if not isinstance(schema, Mapping):
            raise RuleError(f"{where}: a schema is an object, true or false, not {schema!r}")
        for key in schema:
            if key not in OBEYED and key not in EVERYWHERE and key not in NOTES:
                raise RuleError(f"{where}: {key!r} is not obeyed, so this schema is refused (leave it out, or check it "
                                "after writing)")  # fmt: skip
        if "$ref" in schema:
            ref = schema["$ref"]
            if seen.get(ref, 0) >= DEPTH:
                return None, seen
            seen = {**seen, ref: seen.get(ref, 0) + 1}
            rest = {k: v for k, v in schema.items() if k != "$ref" and k not in NOTES}
            target, seen = self._resolved(self._target(ref, where), f"{where} → {ref}", seen)
            if target is None:
                return None, seen
            schema = self._merged([target, rest], where) if rest else target
            return self._resolved(schema, where, seen) if rest else (schema, seen)
        if "allOf" in schema:
            parts = [{k: v for k, v in schema.items() if k != "allOf"}]
            for part in self._list(schema["allOf"], f"{where}.allOf"):
                one, seen = self._resolved(part, f"{where}.allOf", seen)
                if one is None:
                    return None, seen
                parts.append(one)
            return self._resolved(self._merged(parts, where), where, seen)
        return schema, seen

    def _target(self, ref: Any, where: str) -> Any:
        if not isinstance(ref, str) or not ref.startswith("#"):
            raise RuleError(f"{where}: the reference {ref!r} leads outside the schema: put what it means into $defs")
        at = self.root
        for step in ref.lstrip("#").strip("/").split("/") if ref.strip("#/") else ():
            step = step.replace("~1", "/").replace("~0", "~").replace("%25", "%").replace("%20", " ")
            try:
                at = at[int(step)] if isinstance(at, list) else at[step]
            except (KeyError, IndexError, ValueError, TypeError):
                raise RuleError(f"{where}: there is nothing at {ref!r}") from None
        return at

    def _merged(self, schemas: Sequence[Any], where: str) -> Any:
        """One schema that says what all of these say; what cannot be said in one is refused."""
        out: dict[str, Any] = {}
        for schema in schemas:
            if isinstance(schema, Mapping) and "$ref" in schema and len(schemas) > 1 and any(
                s is not schema and s for s in schemas
            ):  # fmt: skip
                schema = self._resolved(schema, where, {})[0] or {"enum": []}
            if isinstance(schema, bool):
                schema = {} if schema else {"enum": []}
            if not isinstance(schema, Mapping):
                raise RuleError(f"{where}: a schema is an object, true or false, not {schema!r}")
            for key, value in schema.items():
                if key in NOTES or key not in out or out[key] == value:
                    out[key] = value
                else:
                    out[key] = self._both(key, out[key], value, where)
        closed = [s for s in schemas if (isinstance(s, Mapping) and "properties" in s) or _closed(s)]
        if len(closed) > 1 and any(_closed(s) for s in closed):
            names = [set(s.get("properties", {})) for s in closed]
            if any(n != names[0] for n in names):
                raise RuleError(f"{where}: additionalProperties beside other schemas' properties is not obeyed")
        return out

    def _both(self, key: str, a: Any, b: Any, where: str) -> Any:
        if key == "properties":
            return {k: self._merged([x[k] for x in (a, b) if k in x], where) for k in {**a, **b}}
        if key == "required":
            return list(dict.fromkeys([*a, *b]))
        if key == "enum":
            return [x for x in a if any(_same(x, y) for y in b)]
        if key == "type":
            x, y = ([t] if isinstance(t, str) else list(t) for t in (a, b))
            return [t for t in x if t in y or (t == "integer" and "number" in y)] + [
                t for t in y if t == "integer" and "number" in x and t not in x
            ]
        if key in ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"):
            return max(a, b)
        if key in ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"):
            return min(a, b)
        if key == "anyOf":
            return [self._merged([x, y], where) for x in a for y in b]
        if key == "allOf":
            return [*a, *b]
        raise RuleError(f"{where}: two different {key!r} at once are not obeyed: say it in one schema")

    def _list(self, value: Any, where: str) -> list[Any]:
        if not isinstance(value, list) or not value:
            raise RuleError(f"{where} is a list of schemas, not {value!r}")
        return value

    def _kinds(self, schema: Mapping[str, Any], where: str) -> tuple[str, ...]:
        given = schema.get("type")
        if given is None:  # values of the kinds that it speaks of; of any kind, where it speaks of none
            spoken = {k for key in schema for k in OBEYED.get(key, ())}
            kinds = tuple(k for k in KINDS if k in spoken) or KINDS
        else:
            kinds = (given,) if isinstance(given, str) else tuple(given)
        for kind in kinds:
            if kind not in KINDS:
                raise RuleError(f"{where}: there is no type {kind!r}")
        return tuple(k for k in kinds if not (k == "integer" and "number" in kinds))

    def _values(self, schema: Mapping[str, Any], where: str, seen: Mapping[str, int]) -> Part:
        """The values of an enum or a const that keep the rest of the schema, too."""
        values = list(schema["enum"]) if "enum" in schema else [schema["const"]]
        if "const" in schema:
            values = [v for v in values if _same(v, schema["const"])]
        rest = {k: v for k, v in schema.items() if k not in ("enum", "const") and k not in NOTES}
        try:
            parts = either(_said(v) for v in values)
        except (TypeError, ValueError, UnicodeEncodeError):
            raise RuleError(f"{where}: enum and const take JSON values, not {values!r}") from None
        if set(rest) - {"type"}:
            return within(automaton_of(parts) & automaton_of(self.value(rest, where, seen)))
        kinds = self._kinds(rest, where)
        return either(_said(v) for v in values if _kind_of(v) & set(kinds))

    def _check_apart(self, schemas: Sequence[Any], where: str, seen: Mapping[str, int]) -> None:
        """No value may be valid under two of the alternatives of oneOf."""
        looked = [self._resolved(s, where, seen)[0] for s in schemas]
        for n, a in enumerate(looked):
            for b in looked[:n]:
                if a is not None and b is not None and not self._apart(a, b, where, seen):
                    raise RuleError(f"{where}: 'oneOf' is obeyed where alternatives exclude each other by their types "
                                    "or by a required property's const: use anyOf, or add one")  # fmt: skip

    def _apart(self, a: Mapping[str, Any], b: Mapping[str, Any], where: str, seen: Mapping[str, int]) -> bool:
        if ("type" in a and "type" in b) or "enum" in a or "const" in a or "enum" in b or "const" in b:
            x, y = _possible(a), _possible(b)
            if isinstance(x, list) and isinstance(y, list):
                return not any(_same(v, w) for v in x for w in y)
            if isinstance(x, list) and isinstance(y, set):
                return not any(_kind_of(v) & y for v in x)
            if isinstance(y, list) and isinstance(x, set):
                return not any(_kind_of(v) & x for v in y)
            if isinstance(x, set) and isinstance(y, set) and not _numbers(x) & _numbers(y):
                return True
        if {"object"} != _possible(a) or {"object"} != _possible(b):
            return False
        both = set(a.get("required", ())) & set(b.get("required", ()))
        for name in both & set(a.get("properties", {})) & set(b.get("properties", {})):
            x, y = (self._resolved(s["properties"][name], where, seen)[0] for s in (a, b))
            if x is not None and y is not None:
                x, y = _possible(x), _possible(y)
                if isinstance(x, list) and isinstance(y, list) and not any(_same(v, w) for v in x for w in y):
                    return True
        return False

    # ------------------------------------------------------------------ values by their kind

    def _kind(self, kind: str, schema: Mapping[str, Any], where: str, seen: Mapping[str, int]) -> Part:
        if kind == "null":
            return literal("null")
        if kind == "boolean":
            return either([literal("true"), literal("false")])
        if kind in ("integer", "number"):
            return self._number(kind, schema, where)
        if kind == "string":
            return self._string(schema, where)
        if kind == "array":
            return self._array(schema, where, seen)
        return self._object(schema, where, seen)

    def anything(
        self, depth: int, kinds: Sequence[str] = ("null", "boolean", "number", "string", "array", "object")
    ) -> Part:
        """Values of any kind, nested no deeper than `depth`."""
        parts = [self._kind(k, {}, "", {}) for k in kinds if k in ("null", "boolean", "number", "string")]
        if depth > 0 and "array" in kinds:
            inner = self.anything(depth - 1)
            parts.append(_listed("[", inner, "]", 0, None))
        if depth > 0 and "object" in kinds:
            inner = self.anything(depth - 1)
            parts.append(_listed("{", sequence([TEXT, literal(":"), SPACE, inner]), "}", 0, None))
        return either(parts)

    def _number(self, kind: str, schema: Mapping[str, Any], where: str) -> Part:
        bounds: dict[str, Fraction] = {}
        for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
            if key in schema:
                value = schema[key]
                if isinstance(value, bool) or not isinstance(value, int | float) or value - value != 0:
                    raise RuleError(f"{where}: {key} is a number, not {value!r}")
                bounds[key] = Fraction(repr(value))
                digits = numbers.PLACES if kind == "number" else numbers.DIGITS
                if (bounds[key] * 10**digits).denominator != 1 or abs(bounds[key]) >= 10**numbers.DIGITS:
                    raise RuleError(f"{where}: {key} {value!r} has more digits than are obeyed")
        low = max((b for k, b in bounds.items() if k in ("minimum", "exclusiveMinimum")), default=None)
        high = min((b for k, b in bounds.items() if k in ("maximum", "exclusiveMaximum")), default=None)
        above, below = bounds.get("exclusiveMinimum") == low, bounds.get("exclusiveMaximum") == high
        above, below = above and low is not None, below and high is not None
        multiple = bounds.get("multipleOf")
        if multiple is not None and (multiple.denominator != 1 or multiple < 1):
            raise RuleError(f"{where}: multipleOf is obeyed for whole numbers, not for {schema['multipleOf']!r}")
        if kind == "number" and multiple is None:
            if low is None and high is None:
                return numbers.number()
            if any(abs(b) >= 10**numbers.WHOLE for b in (low, high) if b is not None):
                raise RuleError(f"{where}: bounds of numbers are obeyed below 10^{numbers.WHOLE}: use an integer")
            return numbers.decimal(low, high, above, below)
        least = None if low is None else -(-low // 1) + (1 if above and low.denominator == 1 else 0)
        most = None if high is None else high // 1 - (1 if below and high.denominator == 1 else 0)
        return numbers.whole(
            None if least is None else int(least),
            None if most is None else int(most),
            None if multiple is None else int(multiple),
        )

    def _string(self, schema: Mapping[str, Any], where: str) -> Part:
        least, most = _count(schema, "minLength", where, 0), _count(schema, "maxLength", where, None)
        languages: list[Part] = []
        if least or most is not None:
            languages.append(
                repeated(character(ALL), least or 0, most) if most is None or most >= (least or 0) else nothing
            )
        if "pattern" in schema:
            languages.append(found_in(schema["pattern"], character))
        if "format" in schema:
            if schema["format"] not in FORMATS:
                raise RuleError(f"{where}: format {schema['format']!r} is not obeyed; {', '.join(sorted(FORMATS))} are")
            languages.append(pattern(FORMATS[schema["format"]]))
        if not languages:
            return TEXT
        if len(languages) == 1:
            return _quoted(languages[0])
        whole = automaton_of(languages[0])
        for other in languages[1:]:
            whole = whole & automaton_of(other)
        return _quoted(within(whole))

    def _array(self, schema: Mapping[str, Any], where: str, seen: Mapping[str, int]) -> Part:
        least, most = _count(schema, "minItems", where, 0) or 0, _count(schema, "maxItems", where, None)
        items, first = schema.get("items", True), schema.get("prefixItems", [])
        if isinstance(items, list):  # as drafts before 2020 say it
            first, items = items, schema.get("additionalItems", True)
        elif "additionalItems" in schema:
            raise RuleError(f"{where}: 'additionalItems' says something beside a list of items only: leave it out")
        if not isinstance(first, list):
            raise RuleError(f"{where}: prefixItems is a list of schemas, not {first!r}")
        if schema.get("uniqueItems"):
            return self._unique(schema, items, first, least, most, where, seen)
        heads = [self.value(s, f"{where}[{n}]", seen) for n, s in enumerate(first)]
        inner = nothing if items is False else self.value(items, f"{where}[]", seen)
        return _listed("[", inner, "]", least, most, heads)

    def _unique(
        self,
        schema: Any,
        items: Any,
        first: list[Any],
        least: int,
        most: int | None,
        where: str,
        seen: Mapping[str, int],
    ) -> Part:
        """Lists without a repetition, of a few values, or of one item at most."""
        if most is not None and most <= 1:
            return self.value({**schema, "uniqueItems": False}, where, seen)
        looked = self._resolved(items, where, seen)[0] if not first else None
        values = _possible(looked) if isinstance(looked, Mapping) else None
        if looked is not None and _possible(looked) == {"boolean"}:
            values = [True, False]
        if (
            not isinstance(values, list)
            or len(values) > MOST_ORDERS
            or set(looked or ()) - {"enum", "const", "type", *NOTES}
        ):
            raise RuleError(
                f"{where}: uniqueItems is obeyed for items of an enum of up to {MOST_ORDERS} values: leave it out"
            )
        words = list(dict.fromkeys(json.dumps(v, ensure_ascii=False) for v in values))
        if len(words) < len(values) or any(_same(v, w) for n, v in enumerate(values) for w in values[:n]):
            raise RuleError(f"{where}: the enum says a value twice: say it once")

        def orders(b: Builder, start: int, left: tuple[str, ...], done: int, end: int) -> None:
            if done >= least:
                b.skip(start, end)
            if most is None or done < most:
                for word in left:
                    comma = sequence([literal(","), SPACE]) if done else empty
                    at = sequence([comma, literal(word)])(b, start)
                    orders(b, at, tuple(w for w in left if w != word), done + 1, end)

        def part(b: Builder, start: int) -> int:
            start, end = literal("[")(b, start), b.node()
            orders(b, start, tuple(words), 0, end)
            return literal("]")(b, end)

        return part

    def _object(self, schema: Mapping[str, Any], where: str, seen: Mapping[str, int]) -> Part:
        properties, required = schema.get("properties", {}), list(schema.get("required", []))
        more = schema.get("additionalProperties", True)
        if not isinstance(properties, Mapping) or not all(isinstance(n, str) for n in required):
            raise RuleError(f"{where}: properties is an object of schemas, required a list of names")
        least, most = _count(schema, "minProperties", where, 0) or 0, _count(schema, "maxProperties", where, None)
        wanted = {**properties, **{name: more for name in required if name not in properties}}
        if not wanted and more is not False:
            if least > 1:
                raise RuleError(
                    f"{where}: minProperties above 1 is not obeyed where names are free: declare properties"
                )
            inner = self.anything(DEPTH - 2) if more is True or more == {} else self.value(more, f"{where}.*", seen)
            return _listed("{", sequence([TEXT, literal(":"), SPACE, inner]), "}", least, most)
        if least > len(set(required)):
            raise RuleError(f"{where}: minProperties beyond what is required is not obeyed: require them by name")
        if most is not None and most < len(wanted):
            raise RuleError(
                f"{where}: maxProperties below the number of declared properties is not obeyed: declare fewer"
            )
        members = [
            (sequence([_said(name), literal(":"), SPACE, self.value(one, f"{where}.{name}", seen)]), name in required)
            for name, one in wanted.items()
        ]
        return partial(_members, members)


def _members(members: Sequence[tuple[Part, bool]], b: Builder, start: int) -> int:
    """An object's members in their order; those that are not required may be missing."""
    none, some = literal("{")(b, start), b.node()  # before any member, and behind one
    for part, required in members:
        comma, entry = sequence([literal(","), SPACE])(b, some), b.node()
        b.skip(none, entry)
        b.skip(comma, entry)
        end, without = part(b, entry), b.node()
        if not required:
            b.skip(none, without)
            b.skip(some, end_of := b.node())
            b.skip(end, end_of)
            end = end_of
        none, some = without, end
    end = b.node()
    b.skip(none, end)
    b.skip(some, end)
    return literal("}")(b, end)


def _listed(opening: str, inner: Part, closing: str, least: int, most: int | None, heads: Sequence[Part] = ()) -> Part:
    """Items between brackets, from `least` to `most` of them, the first ones as `heads` say."""

    def part(b: Builder, start: int) -> int:
        at, end, done = literal(opening)(b, start), b.node(), 0
        while True:
            if done >= least:
                b.skip(at, end)
            if done == most:
                break
            item = heads[done] if done < len(heads) else inner
            if most is None and done >= max(least, len(heads), 1):  # any number more
                comma = sequence([literal(","), SPACE])
                b.skip(repeated(sequence([comma, item]), 0, None)(b, at), end)
                break
            comma = sequence([literal(","), SPACE]) if done else empty
            at, done = sequence([comma, item])(b, at), done + 1
        return literal(closing)(b, end)

    return part


def _count(schema: Mapping[str, Any], key: str, where: str, default: int | None) -> int | None:
    value = schema.get(key, default)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value < 0 or value % 1):
        raise RuleError(f"{where}: {key} is a whole number, not {value!r}")
    return None if value is None else int(value)


def _closed(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("additionalProperties", True) not in (True, {})


def _same(a: Any, b: Any) -> bool:
    """Are two JSON values equal? true is not 1, and 1.0 is."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    return bool(a == b)


def _kind_of(value: Any) -> set[str]:
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, int | float):
        return {"integer", "number"} if value % 1 == 0 else {"number"}
    return {{str: "string", list: "array", dict: "object", type(None): "null"}[type(value)]}


def _possible(schema: Mapping[str, Any]) -> list[Any] | set[str]:
    """The values that a schema lists, or the kinds that it allows."""
    if "const" in schema:
        return [schema["const"]]
    if "enum" in schema:
        return list(schema["enum"])
    given = schema.get("type", KINDS)
    return {given} if isinstance(given, str) else set(given)


def _numbers(kinds: set[str]) -> set[str]:
    return kinds | {"number"} if "integer" in kinds else kinds


def automaton_for(schema: Any, said: Callable[[Any], Part] = valid) -> Automaton:
    """The automaton over bytes of the texts that are valid under a schema; none at all is an error."""
    try:
        made = automaton_of(said(schema))
    except RecursionError:
        raise RuleError("the schema is nested too deeply") from None
    if made.empty:
        raise RuleError("no value is valid under this schema: what it asks for contradicts itself")
    return made
