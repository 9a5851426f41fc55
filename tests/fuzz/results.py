"""What the campaigns found, kept as JSON beside the page that is written from it: docs/results/robustness.md."""

from __future__ import annotations

import fcntl
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from anyorder.files import write_whole

FILE = Path(__file__).parents[2] / "docs" / "results" / "robustness.json"


def part_of(path: Path, what: str, seed: int) -> str:
    """What the campaign of a seed is called among what was found: every seed has a part of its own."""
    known = {name: part["seed"] for name, part in _all(path).items() if name.split()[0] == what}
    return next((name for name, other in known.items() if other == seed), f"{what} {seed}" if known else what)


def read(path: Path, part: str, fresh: dict[str, Any]) -> dict[str, Any]:
    """What a campaign has found so far; `fresh` before it begins."""
    found: dict[str, Any] = _all(path).get(part, fresh)
    return found


def write(path: Path, part: str, state: dict[str, Any]) -> None:
    """Keep what a campaign has found, and write the page anew; campaigns may run at the same time."""
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        everything = {**_all(path), part: state}
        write_whole(path, _anywhere(json.dumps(everything, indent=1, ensure_ascii=True)) + "\n")
        write_whole(path.with_suffix(".md"), page(everything))
    finally:
        os.close(handle)


def _anywhere(text: str) -> str:
    """Without the folders in which cases were tried: they are of one machine and one run."""
    return re.sub(re.escape(tempfile.gettempdir()) + r"/[\w.-]+", "FOLDER", text)


def _all(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def page(found: dict[str, Any]) -> str:
    """The page of everything that was measured."""
    parts = [
        "# Robustness",
        "What campaigns of hostile input, of faults and of load found. Written by the commands that are named.",
    ]
    for what, said in (("fuzz", _fuzz), ("chaos", _chaos), ("load", _load)):
        some = [found[name] for name in found if name.split()[0] == what]
        for n, state in enumerate(some):
            heading, *rest = said(state)
            parts += [heading + f", again with seed {state['seed']}" * (n > 0), *rest]
    return "\n\n".join(parts) + "\n"


def _fuzz(state: dict[str, Any]) -> list[str]:
    families = state["families"]
    cases = sum(sum(f["ended"].values()) for f in families.values())
    broken, mended = len(state["broken"]), len(state["mended"])
    seconds = sum(f["seconds"] for f in families.values())
    rows = ["| what | cases | how they ended |", "|---|---:|---|"]
    for name, f in families.items():
        said = {} if broken else {"broken": "wrong at first, mended"}
        ways = ", ".join(f"{said.get(how, how)} {n:,}" for how, n in sorted(f["ended"].items(), key=lambda i: -i[1]))
        rows.append(f"| {name}: {f['about']} | {sum(f['ended'].values()):,} | {ways} |")
    return [
        "## Fuzzing",
        f"`python -m tests.fuzz --seed {state['seed']}`: {cases:,} cases in {seconds / 60:.0f} minutes of computing. "
        "Each must end in success, or in an exit code of 1 or 2 with a message of the error family: never in a "
        "traceback, never after more than 20 seconds or 600 MB, and with every input file as it was. "
        f"**Cases that did not: {broken}.**"
        + (f" {mended} did not at first; their causes were mended, and the same seeds hold now." * (mended > 0)),
        "\n".join(rows),
    ]


def _chaos(state: dict[str, Any]) -> list[str]:
    rows = [
        "| job | fault | times | stopped in the midst | equal to the undisturbed run after resuming |",
        "|---|---|---:|---:|---:|",
    ]
    for job, faults in state["jobs"].items():
        for fault, n in faults.items():
            later = sum((entry["job"], entry["fault"]) == (job, fault) for entry in state["mended"])
            equal = f"{n['equal']}" + f", {later} more once mended" * (later > 0)
            rows.append(f"| {job} | {fault} | {n['times']} | {n['struck']} | {equal} |")
    mended = len(state["mended"])
    times, at_once = (
        sum(n[key] for faults in state["jobs"].values() for n in faults.values()) for key in ("times", "equal")
    )
    return [
        "## Faults",
        f"`python -m tests.fuzz.chaos --seed {state['seed']}`: a job is disturbed at a random moment, resumed until it "
        "is done, and its files are compared with those of an undisturbed run, byte for byte. "
        f"**{at_once + mended} of {times} were equal"
        + f": {at_once} at once, {mended} not before their cause was mended and the same fault, at the same moment, "
        "was tried again" * (mended > 0) + f". Not equal to this day: {len(state['broken'])}.**",
        "\n".join(rows),
    ]


def _load(state: dict[str, Any]) -> list[str]:
    rows = ["| after | memory, MB |", "|---|---:|"]
    rows += [f"| {what} | {megabytes:.0f} |" for what, megabytes in state["memory"]]
    return ["## Load", f"`python -m tests.fuzz.load`, seed {state['seed']}: {state['about']}", "\n".join(rows)]
