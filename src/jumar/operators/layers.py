"""Names of layers and of their parameters in other frameworks: `CLASSES`, `PARAMETERS`, from `data/layers.json`.

Recordings that are compared and checkpoints that are mapped ask here which names mean the same calculation.
"""

from __future__ import annotations

import json
from typing import Any

from jumar.operators.data import FOLDER

_NAMES: dict[str, dict[str, dict[str, Any]]] = json.loads((FOLDER / "layers.json").read_bytes())


def names_of(framework: str) -> dict[str, dict[str, Any]]:
    """Return the names of `mindspore` or `tensorflow` that differ from PyTorch's for the same calculation.

    They are `classes` of modules, `parameters`, and `parameters_of` by class where a name means another one there.
    """
    return _NAMES[framework]


CLASSES: dict[str, str] = {name: torch for one in _NAMES.values() for name, torch in one["classes"].items()}
"""Classes of modules in other frameworks, and PyTorch's, where they differ. No name means two classes."""
PARAMETERS: dict[str, str] = {name: torch for one in _NAMES.values() for name, torch in one["parameters"].items()}
"""Names of parameters in other frameworks, and PyTorch's. No name means two parameters."""
PARAMETERS_OF: dict[str, dict[str, str]] = {
    kind: names for one in _NAMES.values() for kind, names in one["parameters_of"].items()
}
"""By class, names of parameters that are others there. (A recurrent layer's bias is one in Keras, two in PyTorch.)"""
