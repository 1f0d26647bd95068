"""The frozen artefact, `model.jumar`: a graph, its weights and its plan, built; loading neither tunes nor compiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.lazy import loader

if TYPE_CHECKING:
    from jumar.tune.artefact.load import Loaded, load
    from jumar.tune.artefact.manifest import ArtefactError, Manifest
    from jumar.tune.artefact.write import freeze, write

__all__ = ["ArtefactError", "Loaded", "Manifest", "freeze", "load", "write"]

_HOME = {
    "ArtefactError": "jumar.tune.artefact.manifest",
    "Loaded": "jumar.tune.artefact.load",
    "Manifest": "jumar.tune.artefact.manifest",
    "freeze": "jumar.tune.artefact.write",
    "load": "jumar.tune.artefact.load",
    "write": "jumar.tune.artefact.write",
}

__getattr__ = loader(__name__, __all__, _HOME)
