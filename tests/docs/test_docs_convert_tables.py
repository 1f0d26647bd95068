"""The tables about conversion show what conversion does: each rule's example, each name of torch.cuda."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jumar.base.rules import rules_of
from jumar.convert import Conversion, ConvertOptions, convert_source
from jumar.convert.model import api_map
from jumar.convert.rules.order import rules_by_code
from jumar.convert.verify import verify

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from build_convert_tables import stale
from convert_tables.cuda_names import fate, line_of
from convert_tables.examples import converted

CODES = sorted(rule.code for rule in rules_by_code().values())
EDITS = sorted(rule.code for rule in rules_by_code().values() if rule.safety in ("safe", "unsafe"))
NOT_CONVERTED = {rule.code for rule in (*rules_of("convert.verify"), *rules_of("convert.rules.tree"))}
"""Rules about a result or a whole tree: `test_convert_verify.py` and `test_convert_walk.py` have their cases."""
NAMES = [row["cuda"] for row in api_map.table()["names"]]


@pytest.mark.parametrize("code", sorted(set(CODES) - NOT_CONVERTED))
def test_the_example_of_a_rule_is_one_the_rule_speaks_of(code: str) -> None:
    assert converted(code) is not None


@pytest.mark.parametrize("code", EDITS)
def test_the_example_becomes_what_the_page_says_to_use_instead(code: str) -> None:
    found = converted(code)
    assert found is not None
    assert found.applied
    assert found.agrees, f"{found.needs}\n{found.after}\n--- the page says\n{found.advice}"


def test_every_name_of_torch_cuda_is_in_the_table() -> None:
    assert len(NAMES) == len(set(NAMES)) == 134


@pytest.mark.parametrize("target", ["npu", "agnostic"])
def test_no_name_of_torch_cuda_is_left_in_silence(target: str) -> None:
    fates = {name: fate(name, target) for name in NAMES}  # type: ignore[arg-type]
    assert [name for name, found in fates.items() if found.left and not found.note] == []


@pytest.mark.parametrize("target", ["npu", "agnostic"])
def test_every_name_that_takes_the_place_of_one_exists(target: str) -> None:
    options = ConvertOptions(target=target, unsafe=True)  # type: ignore[arg-type]
    sources = [f"import torch\nx = s = g = pool = state = states = allocator = pointer = model = code = 0\n"
               f"{line_of(name)}\n" for name in NAMES]  # fmt: skip
    files = tuple(convert_source(source, f"{number}.py", options) for number, source in enumerate(sources))
    found = verify(Conversion(Path(), files), options)
    assert [f"{NAMES[int((f.where.path or '0').partition('.')[0])]}: {f.message}" for f in found] == []


def test_the_tables_are_current() -> None:
    assert sorted(stale()) == [], "run python scripts/build_convert_tables.py"
