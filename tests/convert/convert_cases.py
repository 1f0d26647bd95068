"""Short ways to convert a snippet and to look at what came of it."""

from __future__ import annotations

import importlib
import pkgutil
import re
from textwrap import dedent

from jumar.base.findings import Finding
from jumar.base.rules import Rule
from jumar.convert import ConvertOptions, Success, convert_source
from jumar.convert.model.options import Target

GROUPS = ("user", "distributed", "similar", "api", "affinity", "manual", "residue", "files", "tree", "tensorflow")


def rules_in(package: str) -> list[Rule]:
    """The rules of the modules that lie in a package, by code."""
    names = [
        module.name for module in pkgutil.iter_modules(importlib.import_module(package).__path__) if not module.ispkg
    ]
    found = [importlib.import_module(f"{package}.{name}").RULE for name in names]
    return sorted(found, key=lambda rule: str(rule.code))


def all_rules() -> list[Rule]:
    """Every rule of conversion and of its proof, imported from its module."""
    packages = [*(f"jumar.convert.rules.{group}" for group in GROUPS), "jumar.convert.verify.rules"]
    return [rule for package in packages for rule in rules_in(package)]


IMPORT = "import torch_npu  # noqa: F401\n"


def outcome(source: str, *, unsafe: bool = False, target: Target = "npu") -> Success:
    found = convert_source(dedent(source), "a.py", ConvertOptions(unsafe=unsafe, target=target))
    assert isinstance(found, Success), found
    return found


def converted(source: str, *, unsafe: bool = False) -> str:
    """The converted snippet, without the added import (which has its own tests)."""
    return re.sub(rf"^[ \t]*{re.escape(IMPORT)}", "", outcome(source, unsafe=unsafe).after.decode(), flags=re.MULTILINE)


DEFINITION = re.compile(
    r"(\n|^)DEVICE_TYPE = torch\.accelerator\.current_accelerator\(\)\.type "
    r"if torch\.accelerator\.is_available\(\) else (['\"])cpu\2\n\n?"
)


def agnostic(source: str, *, unsafe: bool = False) -> str:
    """The snippet for any accelerator, without the definition of DEVICE_TYPE (which has its own tests)."""
    after = outcome(source, unsafe=unsafe, target="agnostic").after.decode()
    again = outcome(after, unsafe=unsafe, target="agnostic").after.decode() if "cuda" in after else after
    assert after == again
    return DEFINITION.sub("", after, count=1)


def findings(source: str, code: str, *, unsafe: bool = False) -> list[Finding]:
    return [finding for finding in outcome(source, unsafe=unsafe).findings if finding.code == code]


def left(source: str, code: str) -> list[Finding]:
    """Findings of a rule that changed nothing."""
    return [finding for finding in findings(source, code) if not finding.evidence.get("applied")]
