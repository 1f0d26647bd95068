"""JSON that is nested deeply is refused in a sentence wherever tuning reads a file of others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jumar.base.errors import JumarError
from jumar.capture.plans.patterns import read_patterns
from jumar.tune.backend.collect import read_collected
from jumar.tune.bank.exchange import import_lines
from jumar.tune.measure.conditions.settings import read_aoe_config
from jumar.tune.search.tasks.extract import read_selection

NESTED = "[" * 100_000


READERS: dict[str, Callable[[Path], object]] = {
    "an export of a bank": lambda path: import_lines([path.read_text()], path.name),
    "a choice of operators": read_selection,
    "an AOE configuration": lambda path: read_aoe_config(path, 2),
    "collected graphs": lambda path: read_collected(path.parent),
    "suspects": lambda path: read_patterns((str(path),)),
}


@pytest.mark.parametrize("name", READERS)
def test_nested_json_is_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(NESTED)
    with pytest.raises(JumarError) as raised:
        READERS[name](path)
    assert "\n" not in str(raised.value)
