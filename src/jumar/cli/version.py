"""`jumar --version`: what is installed, which dates the tables of the NPU have, and what Jumar was verified with."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from importlib import metadata, resources
from typing import Any

from jumar import __version__
from jumar.show.pages.guides.shelf import folder

_NAMED = ("torch", "numpy", "pyarrow", "libcst", "onnx", "onnxruntime", "openvino", "ray")
"""Packages of the verified set that are worth a line."""


def version_text() -> str:
    """Return the version of Jumar, then what it works with, a line each."""
    lines = [f"jumar {__version__}", f"  Python     {platform.python_version()}"]
    lines += [f"  {name:<10} {_installed(name)}" for name in ("torch", "torch_npu")]
    dates = sorted(_dates())
    if dates:
        lines.append(f"  NPU tables {dates[0]} to {dates[-1]}, from public sources of torch_npu and CANN")
    verified = [f"{name} {version}" for name, version in _verified().items()]
    lines.append(f"  verified   {', '.join(verified) or 'unknown: the list of versions is not installed'}")
    return "\n".join(lines)


def _installed(name: str) -> str:
    """Return the version that is installed, without importing it."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _dates() -> Iterator[str]:
    """Yield the dates on which the tables were taken from their sources."""
    for file in (resources.files("jumar") / "soc" / "data").iterdir():
        if file.name.endswith(".json"):
            header: Any = json.loads(file.read_text("utf-8"))
            date = header.get("header", header).get("date") if isinstance(header, dict) else None
            if isinstance(date, str):
                yield date


def _verified() -> dict[str, str]:
    """Return versions of the set that the suite was run with."""
    for place in (folder() / "constraints.txt", folder().parent / "constraints.txt"):
        try:
            text = place.read_text("utf-8")
        except OSError:
            continue
        pairs = (line.split(";")[0].partition("==") for line in text.splitlines() if not line.startswith("#"))
        found = {name.strip(): version.strip() for name, _, version in pairs}
        return {name: found[name] for name in _NAMED if name in found}
    return {}
