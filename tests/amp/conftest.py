"""Each test of `jumar.amp` begins and ends without casts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_casts_afterwards() -> Iterator[None]:
    yield
    from jumar.amp.state import STATE

    STATE.stop_casts()
    STATE.level, STATE.disabled, STATE.scalers = None, False, []
    STATE.registered.clear()
