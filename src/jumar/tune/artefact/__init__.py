"""The frozen artefact, `model.jumar`: a graph, its weights and its plan, built; loading neither tunes nor compiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader

if TYPE_CHECKING:
    from jumar.tune.artefact.loading import Loaded, load
    from jumar.tune.artefact.manifest import ArtefactError, Manifest
    from jumar.tune.artefact.writing import freeze, write

__all__ = ["ArtefactError", "Loaded", "Manifest", "freeze", "load", "write"]

_HOME = {
    "ArtefactError": "jumar.tune.artefact.manifest",
    "Loaded": "jumar.tune.artefact.loading",
    "Manifest": "jumar.tune.artefact.manifest",
    "freeze": "jumar.tune.artefact.writing",
    "load": "jumar.tune.artefact.loading",
    "write": "jumar.tune.artefact.writing",
}

__getattr__ = loader(__name__, __all__, _HOME)
__dir__ = directory(__name__, __all__)
