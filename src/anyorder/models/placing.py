"""Where a model goes, in which number format, and from which revision: what every loader is told alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch

from anyorder.errors import MissingError, ModelError, first_line

DEVICES = ("cuda", "xpu", "mps", "cpu")  # the best first; a number may follow, as in cuda:1
FORMATS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Placing:
    """How weights are read: `device` None is a GPU where there is one, `dtype` "auto" the format of the file."""

    device: str | None = None
    dtype: str = "float32"
    device_map: str | None = None  # "auto": over all devices, and the disk, as far as they have room (accelerate)
    revision: str | None = None  # of a repository on the hub
    token: str | None = None

    def check(self) -> Placing:
        """This, if the device is there and everything fits together."""
        if self.device_map is not None:
            if self.device not in (None, "auto"):
                raise ModelError("device_map puts parts of a model on several devices: leave device out")
            if find_spec("accelerate") is None:
                raise MissingError("device_map needs the package accelerate: pip install 'anyorder[large]'")
        self.where()
        return self

    def where(self) -> torch.device:
        """The device, which is there."""
        return found(self.device or "auto")

    @property
    def hub(self) -> dict[str, Any]:
        """Keywords of everything that is read from the hub."""
        given = {"revision": self.revision, "token": self.token}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def weights(self) -> dict[str, Any]:
        """Keywords of `from_pretrained`: tensor by tensor into the format, and to the device, that is asked for."""
        dtype: Any = "auto" if self.dtype == "auto" else FORMATS[self.dtype]
        if self.device_map is not None:
            return {**self.hub, "dtype": dtype, "device_map": self.device_map}
        device = self.where()
        straight = device.type != "cpu" and find_spec("accelerate") is not None
        return {**self.hub, "dtype": dtype, **({"device_map": {"": str(device)}} if straight else {})}

    def moved(self, model: Any) -> Any:
        """A model that was read, where it belongs."""
        return model if self.device_map is not None else model.to(self.where())


CPU = Placing("cpu")


def found(name: str) -> torch.device:
    """A device by its name, which must be there; "auto" is the best that there is."""
    if name == "auto":
        return torch.device(next(kind for kind in DEVICES if _there(kind)))
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in DEVICES:
        raise ModelError(f"no device {name!r}: it is cpu, cuda, cuda:1, mps, xpu or auto")
    if not _there(device.type):
        raise ModelError(f"there is no device {name!r} on this machine (torch {torch.__version__}); there is {_all()}")
    count = getattr(torch, device.type).device_count() if device.type in ("cuda", "xpu") else 1
    if (device.index or 0) >= count:
        raise ModelError(f"there is no device {name!r}: this machine has {count} of {device.type}, counted from 0")
    return device


def moved(model: Any, device: str | torch.device) -> torch.device:
    """Move a model there; says where that is."""
    where = found(str(device)) if isinstance(device, str) else device
    try:
        model.to(where)
    except (RuntimeError, ValueError, NotImplementedError) as error:
        raise ModelError(f"the model cannot be moved to {where}: {first_line(error)}") from error
    return where


@cache
def _there(kind: str) -> bool:
    if kind == "mps":
        return torch.backends.mps.is_available()
    return kind == "cpu" or bool(getattr(torch, kind).is_available())


def _all() -> str:
    return " and ".join(kind for kind in DEVICES if _there(kind))
