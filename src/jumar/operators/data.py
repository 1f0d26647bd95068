"""The packaged data: `computed.json` and `schemas.txt`, made from PyTorch.

`judged.json`, `mindspore.json`, `tensorflow.json` and `layers.json` are made by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "data"


@cache
def judged() -> Mapping[str, Any]:
    """Return `judged.json`: `words`, `variants` and `operators`."""
    return _read("judged.json")


@cache
def torch_names(framework: str) -> Mapping[str, str]:
    """Return PyTorch's base name of each operator of `mindspore` or `tensorflow` that has one: `mm` of `MatMul`."""
    return {name: torch for torch, names in _read(f"{framework}.json").items() for name in names.split()}


@cache
def computed() -> Mapping[str, Any]:
    """Return `computed.json`: the profiles of traits, and the number of the profile of each overload and base name."""
    return _read("computed.json")


@cache
def schema_lines() -> Mapping[str, str]:
    """Return the schemas as PyTorch writes them, by full name: `aten::add.Tensor`."""
    lines = (FOLDER / "schemas.txt").read_text(encoding="utf-8").splitlines()
    return {line.partition("(")[0]: line for line in lines if line and not line.startswith("#")}


def _read(name: str) -> Mapping[str, Any]:
    parsed: dict[str, Any] = json.loads((FOLDER / name).read_bytes())
    return parsed
