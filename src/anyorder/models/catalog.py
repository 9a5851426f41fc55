"""Finding models: shipped with this package, or folders on disk; an error says what is missing."""

from __future__ import annotations

from pathlib import Path

from anyorder.errors import ModelError, near
from anyorder.models.folder import ModelFolder

SHIPPED = Path(__file__).parents[1] / "shipped"
DEFAULT = "de-en"


def shipped() -> list[str]:
    """The names of the models inside this package."""
    return sorted(path.name for path in SHIPPED.glob("*") if ModelFolder(path).ours)


def locate(path_or_name: str | Path) -> ModelFolder | None:
    """The folder of a model; None where the name can only be one of the Hugging Face hub's. Says what is missing."""
    name, folder = str(path_or_name), ModelFolder(Path(path_or_name).expanduser())
    if name in shipped():
        return ModelFolder(SHIPPED / name)
    if folder.path.is_dir():
        folder.check()
        return folder
    if folder.path.exists():
        hint = f"; `anyorder convert {name} FOLDER` makes one of it" if folder.path.suffix == ".pth" else ""
        raise ModelError(f"{name} is a file, but a model is a folder{hint}")
    hint = near(name, shipped())
    if hint or name.count("/") > 1 or name.startswith((".", "/", "~")) or name.endswith("/"):
        raise ModelError(f"there is no model {name!r}; {hint}{known()}")
    return None


def found(path_or_name: str | Path) -> ModelFolder:
    """The folder of a model that must be on this machine."""
    folder = locate(path_or_name)
    if folder is None:
        raise ModelError(f"there is no model {str(path_or_name)!r}; {known()}")
    return folder


def known() -> str:
    """A sentence that names the models that can be loaded."""
    names = shipped()
    inside = f"shipped models are {', '.join(names)}" if names else "no model is shipped with this installation"
    return f"{inside}; else give a folder"
