"""The variables that make every process of a run switch units."""

from __future__ import annotations

from pathlib import Path

from jumar.accuracy.bisect.units import ENVIRONMENT, Intervention
from jumar.capture.plugin import ENVIRONMENT as PLUGIN_ENVIRONMENT
from jumar.capture.seeds import ENVIRONMENT as SEED

PLUGIN = "jumar.accuracy.bisect.intervene:start"


def variables(intervention: Intervention | None, folder: Path, seed: int | None) -> dict[str, str]:
    """Return the variables of a run whose files lie in `folder`. Raises OSError."""
    found = {SEED: str(seed)} if seed is not None else {}
    if intervention is None:
        return found
    path = folder.absolute() / "intervention.json"
    Intervention(units=intervention.units, how=intervention.how, report=str(folder.absolute())).save(path)
    return {**found, ENVIRONMENT: str(path), PLUGIN_ENVIRONMENT: PLUGIN}
