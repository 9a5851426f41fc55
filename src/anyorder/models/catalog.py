"""Where models are: the ones inside this package, folders on disk; and what is missing where there is none."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

from anyorder.errors import ModelError

SHIPPED = Path(__file__).parents[1] / "shipped"
DEFAULT = "de-en"
PARTS = ("config.json", "model.safetensors", "tokenizer.json")


def shipped() -> list[str]:
    """The models inside this package."""
    return sorted(p.parent.name for p in SHIPPED.glob("*/config.json"))


def locate(path_or_name: str | Path) -> Path | None:
    """The folder of a model; None where the name can only be one of the Hugging Face hub's. Says what is missing."""
    name, folder = str(path_or_name), Path(path_or_name).expanduser()
    if name in shipped():
        return SHIPPED / name
    if folder.is_dir():
        if not (folder / "config.json").exists():
            raise ModelError(f"{name} is not a model folder: it has no config.json (a model is {', '.join(PARTS)})")
        config = our_config(folder)
        missing = [part for part in PARTS if config and not (folder / part).exists()]
        if missing:
            raise ModelError(f"{name} is not a complete model folder: it has no {' and no '.join(missing)}")
        return folder
    if folder.exists():
        hint = f"; `anyorder convert {name} FOLDER` makes one of it" if folder.suffix == ".pth" else ""
        raise ModelError(f"{name} is a file, but a model is a folder{hint}")
    near = difflib.get_close_matches(name, shipped(), 1)
    if near or name.count("/") > 1 or name.startswith((".", "/", "~")) or name.endswith("/"):
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ModelError(f"there is no model {name!r}; {hint}{known()}")
    return None


def known() -> str:
    """A sentence on what can be loaded."""
    names = shipped()
    inside = f"shipped models are {', '.join(names)}" if names else "no model is shipped with this installation"
    return f"{inside}; else give a folder"


def our_config(folder: Path) -> dict[str, Any] | None:
    """config.json of a model of ours; None for a folder of another kind."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except OSError:
        return None
    except ValueError as error:
        raise ModelError(f"{folder / 'config.json'} is not JSON: {error}") from None
    return config if isinstance(config, dict) and "format" in config else None
