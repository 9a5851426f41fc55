"""A model's folder: which files a model of ours is made of, and their contents."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyorder.errors import ModelError, first_line
from anyorder.files import write_whole
from anyorder.models.weights import FORMAT, build, check_size, config_of, own_weights, set_weights

if TYPE_CHECKING:
    from torch import Tensor

    from anyorder.core import Length, Order
    from anyorder.models.tokenizer import Tokenizer
    from anyorder.models.translation import LengthCounts

CONFIG, WEIGHTS, TOKENIZER = PARTS = ("config.json", "model.safetensors", "tokenizer.json")  # no model without them
VOCABULARY = "vocabulary_fingerprint"  # in config.json: which tokenizer.json belongs to the weights
LENGTHS, TRAINED, CARD = "lengths.json", "training.json", "README.md"
LEARNED = {  # orders that were learned: their files, by direction
    "learned": "policy-{}.safetensors",  # which position
    "learned-count": "count-{}.safetensors",  # and how many at once
}
BESIDE, KINDS = "-ar", ("-joint", "-masked")  # the autoregressive twin of "de-en" and of "de-en-joint" is "de-en-ar"


@dataclass(frozen=True)
class ModelFolder:
    """A folder that is, or will be, a model of ours: config, weights, tokenizer, lengths, policies, its twin."""

    path: Path

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.path.resolve().name

    # ------------------------------------------------------------------ reading

    @cached_property
    def config(self) -> dict[str, Any] | None:
        """The config.json of a model of ours; None for a folder of another kind, or without the file."""
        path = self.path / CONFIG
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise ModelError(f"{path} is not JSON: {first_line(error)}") from None
        except OSError as error:
            raise ModelError(f"{path} cannot be read: {error.strerror}") from None
        return config if isinstance(config, dict) and "format" in config else None

    @property
    def ours(self) -> bool:
        """Is it a model of anyorder?"""
        return self.config is not None

    def check(self) -> None:
        """Complain unless everything that a model needs is there."""
        if not (self.path / CONFIG).exists():
            raise ModelError(f"{self.path} is not a model folder: it has no {CONFIG} (a model is {', '.join(PARTS)})")
        missing = [part for part in PARTS if self.ours and not (self.path / part).exists()]
        if missing:
            raise ModelError(f"{self.path} is not a complete model folder: it has no {' and no '.join(missing)}")

    @property
    def languages(self) -> list[str]:
        """The languages of a translation model, in the order of its indices."""
        found = (self.config or {}).get("languages", ())
        return [str(name) for name in found] if isinstance(found, list) else []

    def model(self) -> Any:
        """The model, in evaluation mode, as float32 on the CPU."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        if self.config is None:
            what = f"{CONFIG} has no 'format'" if (self.path / CONFIG).exists() else f"it has no {CONFIG}"
            raise ModelError(f"{self.path} is not a model folder of anyorder: {what}")
        if self.config["format"] != FORMAT:
            raise ModelError(
                f"{self.path / CONFIG} has format {self.config['format']}, this version reads {FORMAT}: update anyorder"
            )
        path = self.path / WEIGHTS
        try:
            weights = load_file(path)
        except FileNotFoundError:
            raise ModelError(f"{path} is missing: this is not a complete model folder") from None
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            raise ModelError(f"{path} is damaged ({first_line(error)}): copy or download it again") from None
        check_size(self.config, weights, path)
        model = build(self.config)
        set_weights(model, weights, path)
        return model.eval().requires_grad_(False)

    def tokenizer(self) -> Tokenizer:
        """Text to ids and back."""
        from anyorder.models.tokenizer import Tokenizer

        found = Tokenizer.load(self.path / TOKENIZER)
        config = self.config or {}
        sizes = config.get("architecture")
        own, size = config.get(VOCABULARY), sizes.get("vocabulary") if isinstance(sizes, dict) else None
        if (own is not None and own != found.fingerprint) or (size is not None and size != len(found)):
            what = f"it has {len(found)} symbols, the model {size}" if size != len(found) else "its subwords are others"
            raise ModelError(
                f"{self.path / TOKENIZER} is not this model's vocabulary ({what}): put the file back that came with it"
            )
        return found

    def lengths(self) -> dict[str, Length]:
        """p(L|X) by direction, from counts; empty where there are none."""
        from anyorder.models.translation import length_models

        path = self.path / LENGTHS
        if not path.exists():
            return {}
        try:
            return length_models(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise ModelError(f"{path} is damaged ({first_line(error)}): copy or download it again") from None

    def directions(self, order: str) -> list[str]:
        """The directions that have a learned order of this name."""
        before, after = LEARNED[order].split("{}")
        found = self.path.glob(LEARNED[order].format("*"))
        return sorted(f.name.removeprefix(before).removesuffix(after) for f in found)

    def policies(self) -> dict[str, dict[str, Order]]:
        """The learned orders by direction and name."""
        from anyorder.models.policy import Policy

        out: dict[str, dict[str, Order]] = {}
        for name, file in LEARNED.items():
            for direction in self.directions(name):
                out.setdefault(direction, {})[name] = Policy.load(self.path / file.format(direction))
        return out

    @property
    def beside(self) -> ModelFolder | None:
        """The autoregressive model beside this one; None where there is none, or where this is it."""
        if self.config is None or self.config.get("kind") == "autoregressive":
            return None
        base = self.name
        for kind in KINDS:
            base = base.removesuffix(kind)
        other = ModelFolder(self.path.resolve().with_name(base + BESIDE))
        return other if other.ours else None

    @property
    def story(self) -> dict[str, Any] | None:
        """How the model was trained, where that is known."""
        path = self.path / TRAINED
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    @property
    def card(self) -> str:
        """The page about the model; empty where there is none."""
        path = self.path / CARD
        return path.read_text(encoding="utf-8") if path.exists() else ""

    @property
    def files(self) -> dict[str, Path]:
        """The files that a model's outputs depend on, by their role; "ar" is the weights of the model beside it."""
        files = {"model": self.path / WEIGHTS, "tokenizer": self.path / TOKENIZER, "lengths": self.path / LENGTHS}
        if self.beside is not None:
            files["ar"] = self.beside.path / WEIGHTS
        for name, file in LEARNED.items():
            found = [file.format(direction) for direction in self.directions(name)]
            files |= {f.removesuffix(".safetensors"): self.path / f for f in found}
        return {name: path for name, path in files.items() if path.exists()}

    @property
    def megabytes(self) -> float:
        """On disk."""
        return round(sum(f.stat().st_size for f in self.path.iterdir() if f.is_file()) / 1e6, 1)

    # ------------------------------------------------------------------ writing

    def save(
        self,
        model: Any,
        *,
        half: bool = False,  # as float16
        weights: dict[str, Tensor] | None = None,  # instead of the model's own
        tokenizer: Tokenizer | None = None,
        lengths: Mapping[str, LengthCounts] | None = None,
        story: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a model, and the other parts that are given; every file appears whole or not at all."""
        from safetensors.torch import save

        self.path.mkdir(parents=True, exist_ok=True)
        tensors = {n: (w.half() if half else w).cpu().contiguous() for n, w in (weights or own_weights(model)).items()}
        write_whole(self.path / WEIGHTS, save(tensors))  # for whom the other files are (save_file: the owner alone)
        config = config_of(model)
        if tokenizer is not None:
            tokenizer.save(self.path / TOKENIZER)
            config[VOCABULARY] = tokenizer.fingerprint
        write_whole(self.path / CONFIG, json.dumps(config, indent=1) + "\n")
        if lengths is not None:
            write_whole(self.path / LENGTHS, json.dumps(lengths))
        if story is not None:
            write_whole(self.path / TRAINED, json.dumps(story, indent=1) + "\n")

    def copy_to(self, other: ModelFolder, half: bool = True) -> None:
        """This model as it is shipped: float16, with tokenizer and length counts."""
        tokenizer = self.tokenizer() if (self.path / TOKENIZER).exists() else None
        other.save(self.model(), half=half, tokenizer=tokenizer)
        for name in (TOKENIZER, LENGTHS, TRAINED):
            if (self.path / name).exists():
                shutil.copyfile(self.path / name, other.path / name)


def load_model(folder: str | Path) -> Any:
    """The model in `folder`, in evaluation mode, as float32 on the CPU."""
    return ModelFolder(Path(folder)).model()


def save_model(model: Any, folder: str | Path, half: bool = False, weights: dict[str, Tensor] | None = None) -> None:
    """Write a model's description and weights, as float16 with `half`; `weights` instead of the model's own."""
    ModelFolder(Path(folder)).save(model, half=half, weights=weights)
