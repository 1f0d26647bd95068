"""Scaffolded distributions, laid out as if they were installed, and `jumar` in a process that sees them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jumar.testing.scaffold import write

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def installed(kind: str, name: str, folder: Path) -> Path:
    """Write a distribution of this kind and lay its metadata beside its module, as its pyproject.toml says."""
    place = write(kind, name, folder)
    project: dict[str, Any] = tomllib.loads((place / "pyproject.toml").read_text("utf-8"))["project"]
    metadata(place / "src", project["name"], project["version"], project["entry-points"])
    return place


def metadata(folder: Path, name: str, version: str, entry_points: Mapping[str, Mapping[str, str]]) -> None:
    """Write the metadata of a distribution whose modules lie in `folder`."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "utf-8")
    lines = [
        line
        for group, entries in entry_points.items()
        for line in (f"[{group}]", *(f"{key} = {target}" for key, target in entries.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", "utf-8")


def run(arguments: list[str], place: Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments in `folder`, with the distribution at `place` installed."""
    paths = os.pathsep.join([str(place / "src"), str(folder)])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, "JUMAR_CACHE_DIR": str(folder / "cache"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def jumar(place: Path, folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `jumar` with the distribution installed."""
    return run(["-m", "jumar", *arguments], place, folder, **environment)
