"""Files of tests of the device begin with the CPU's numerics and every operator, whichever of them came first."""

from __future__ import annotations

import dataclasses
import sys

import pytest


@pytest.fixture(autouse=True, scope="module")
def _exact_settings() -> None:
    """A process has one emulator, whose first plan stays: undo what another file's plan chose."""
    module = sys.modules.get("jumar.npu.core.state")
    if module is not None and module.STATE.active:
        settings = dataclasses.replace(module.STATE.settings, numerics="exact", unsupported="fallback")
        module.STATE.apply(settings)
