"""Types of the keywords of each task, for editors and mypy. Written by scripts/make_docs.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from anyorder.core import Count, Decoder, Order


class Translate(TypedDict, total=False):
    """Options of translations of texts, the best first."""

    order: str | Order | Decoder | None
    count: str | int | Count | None
    steps: int | str | None
    among: str | None
    conditionals: Literal["visible", "masked"]
    beam: int
    positions: int
    lengths: int
    prefix_beam: int | None
    draft: bool
    rescore: Literal["none", "written", "path", "pll", "forwards", "ar", "both", "marginal"] | None
    normalise: Literal["mean", "sum"]
    samples: int
    polish: int
    temperature: float
    order_temperature: float
    top_k: int | None
    top_p: float | None
    seed: int
    pattern: str | None
    schema: dict[str, Any] | str | Path | type | None
    ban: str | Sequence[str] | None
    include: str | Sequence[str] | None
    keep: str | Sequence[str] | None
    glossary: dict[str, str] | str | Path | None
    nbest: int
    most_passes: int
    most_memory: float


class Trace(TypedDict, total=False):
    """Options of how one translation comes about, and all that it was chosen from."""

    order: str | Order | Decoder | None
    count: str | int | Count | None
    steps: int | str | None
    among: str | None
    conditionals: Literal["visible", "masked"]
    beam: int
    positions: int
    lengths: int
    prefix_beam: int | None
    draft: bool
    rescore: Literal["none", "written", "path", "pll", "forwards", "ar", "both", "marginal"] | None
    normalise: Literal["mean", "sum"]
    samples: int
    temperature: float
    order_temperature: float
    top_k: int | None
    top_p: float | None
    seed: int
    pattern: str | None
    schema: dict[str, Any] | str | Path | type | None
    ban: str | Sequence[str] | None
    include: str | Sequence[str] | None
    keep: str | Sequence[str] | None
    glossary: dict[str, str] | str | Path | None
    most_passes: int
    most_memory: float


class Fill(TypedDict, total=False):
    """Options of the masks of a text, filled jointly."""

    order: str | Order | Decoder | None
    count: str | int | Count | None
    steps: int | str | None
    among: str | None
    conditionals: Literal["visible", "masked"]
    beam: int
    positions: int
    temperature: float
    order_temperature: float
    top_k: int | None
    top_p: float | None
    seed: int
    guidance: float
    cache: Literal["prefix", "dual", "approximate-prefix", "approximate-dual"] | None
    pattern: str | None
    schema: dict[str, Any] | str | Path | type | None
    ban: str | Sequence[str] | None
    include: str | Sequence[str] | None
    most_passes: int
    most_memory: float


class Infill(TypedDict, total=False):
    """Options of gaps of unknown length, filled."""

    order: str | Order | Decoder | None
    count: str | int | Count | None
    steps: int | str | None
    among: str | None
    conditionals: Literal["visible", "masked"]
    beam: int
    positions: int
    temperature: float
    order_temperature: float
    top_k: int | None
    top_p: float | None
    seed: int
    guidance: float
    cache: Literal["prefix", "dual", "approximate-prefix", "approximate-dual"] | None
    pattern: str | None
    schema: dict[str, Any] | str | Path | type | None
    ban: str | Sequence[str] | None
    include: str | Sequence[str] | None
    most_passes: int
    most_memory: float


class Generate(TypedDict, total=False):
    """Options of new texts."""

    order: str | Order | Decoder | None
    count: str | int | Count | None
    steps: int | str | None
    among: str | None
    conditionals: Literal["visible", "masked"]
    beam: int
    positions: int
    temperature: float
    order_temperature: float
    top_k: int | None
    top_p: float | None
    seed: int
    guidance: float
    cache: Literal["prefix", "dual", "approximate-prefix", "approximate-dual"] | None
    pattern: str | None
    schema: dict[str, Any] | str | Path | type | None
    ban: str | Sequence[str] | None
    include: str | Sequence[str] | None
    most_passes: int
    most_memory: float


class Design(TypedDict, total=False):
    """Options of stretches of a sequence, written anew."""

    order: str | Order | Decoder | None
    count: str | int | Count | None
    steps: int | str | None
    among: str | None
    conditionals: Literal["visible", "masked"]
    beam: int
    positions: int
    temperature: float
    order_temperature: float
    top_k: int | None
    top_p: float | None
    seed: int
    guidance: float
    cache: Literal["prefix", "dual", "approximate-prefix", "approximate-dual"] | None
    most_passes: int
    most_memory: float


class Stream(TypedDict, total=False):
    """Options of one text, watched while it is written."""

    order: str | Order | Decoder | None
    count: str | int | Count | None
    steps: int | str | None
    among: str | None
    conditionals: Literal["visible", "masked"]
    temperature: float
    order_temperature: float
    top_k: int | None
    top_p: float | None
    seed: int
    guidance: float
    cache: Literal["prefix", "dual", "approximate-prefix", "approximate-dual"] | None
    most_passes: int
    most_memory: float


class Load(TypedDict, total=False):
    """Options of loading a model."""

    beside: str | Path | None
    int8: bool
    device: str | None
    dtype: Literal["float32", "bfloat16", "float16", "auto"]
    device_map: str | None
    revision: str | None
    token: str | None
    unknown: Literal["refuse", "allow"]
