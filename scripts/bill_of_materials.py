"""Write a software bill of materials (CycloneDX 1.5) of anyorder and everything it needs, as installed here.

python scripts/bill_of_materials.py sbom.json
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path


def needed(name: str, found: dict[str, Distribution]) -> None:
    """Add a package and, in turn, what it needs without extras."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in found:
        return
    try:
        found[key] = distribution(name)
    except PackageNotFoundError:
        return  # for another system
    for line in found[key].requires or []:
        if "extra ==" not in line:
            needed(re.split(r"[\s;<>=!~\[(]", line, maxsplit=1)[0], found)


def bill() -> dict[str, object]:
    """The content of the file."""
    found: dict[str, Distribution] = {}
    needed("anyorder", found)
    parts = [
        {
            "type": "library", "name": name, "version": one.version, "purl": f"pkg:pypi/{name}@{one.version}",
            "licenses": [{"license": {"name": _license(one)}}],
        }
        for name, one in sorted(found.items())
        if name != "anyorder"
    ]  # fmt: skip
    about = {"type": "library", "name": "anyorder", "version": found["anyorder"].version}
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": about},
        "components": parts,
    }  # fmt: skip


def _license(one: Distribution) -> str:
    said = one.metadata.get("License-Expression") or one.metadata.get("License") or "unknown"
    return str(said).strip().splitlines()[0][:80]


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(bill(), indent=1) + "\n", encoding="utf-8")
