"""What a folder of results was made from: noted when it is begun, and compared when a command comes to it again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from anyorder.training.checkpoint import TrainingError, write_atomically


def fingerprint(texts: Iterable[Iterable[str]]) -> str:
    """A short hash of lists of texts."""
    total = hashlib.sha256()
    for part in texts:
        total.update(b"\x00")
        for text in part:
            total.update(text.encode("utf-8", "surrogatepass") + b"\n")
    return total.hexdigest()[:16]


def agree(path: Path, now: Mapping[str, Any], free: Iterable[str] = (), write: bool = True) -> None:
    """Note in `path` what its folder is made from; refuse where it was made from something else.

    Settings named in `free` may change: the file then tells the new ones.
    """
    now = json.loads(json.dumps(dict(now)))
    before = _read(path)
    if before == now:
        return
    if before is not None:
        odd = [key for key in {**before, **now} if before.get(key) != now.get(key) and key not in set(free)]
        if odd:
            changes = "; ".join(f"{key} was {_short(before.get(key))}, is {_short(now.get(key))}" for key in odd)
            raise TrainingError(
                f"{path.parent} is of another run: {changes}. Choose another folder, or remove this one to begin anew"
            )
    if write:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(now, indent=1).encode() + b"\n")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        raise TrainingError(f"{path} is damaged: remove it, if you know that the folder is of this run") from None
    return value if isinstance(value, dict) else {}


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:59] + "…"
