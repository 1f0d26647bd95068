"""The index of rules: `index.json` says what is fixed about each rule and which module holds it.

`scripts/build_rule_index.py` writes it from the sources, so that listing rules reads one file and imports no room.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jumar.base.findings import Severity
from jumar.base.rules.rule import Rule

INDEX = Path(__file__).with_name("index.json")
PACKAGES = Path(__file__).parents[3]
"""The folder that holds the package `jumar`."""


def rules_of(package: str) -> tuple[Rule, ...]:
    """Return the rules whose modules lie in `package` (`convert`, `advise.doctor`), by code."""
    head = f"jumar.{package}."
    return tuple(rule for code, rule in built_in().items() if _modules()[code].startswith(head))


def documentation(rule: Rule) -> str:
    """Return the rule's documentation; of a rule of the index it is read from the rule's source file."""
    if rule.doc or rule.code not in _modules():
        return rule.doc
    return ast.get_docstring(ast.parse(source_of(_modules()[rule.code]).read_text("utf-8")), clean=False) or ""


def source_of(module: str) -> Path:
    """Return the source file of a module of Jumar, without importing it."""
    place = PACKAGES.joinpath(*module.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


@cache
def _rows() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(INDEX.read_text("utf-8")))


@cache
def _modules() -> Mapping[str, str]:
    return {row["code"]: row["module"] for row in _rows()}


@cache
def built_in() -> Mapping[str, Rule]:
    """Return Jumar's own rules by code, without their documentation."""
    return {row["code"]: _rule(row) for row in _rows()}


def _rule(row: Mapping[str, Any]) -> Rule:
    facts = {name: value for name, value in row.items() if name != "module"}
    return Rule(**facts | {"severity": Severity.parse(facts["severity"]), "doc": ""})
