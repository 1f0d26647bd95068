"""Write `src/jumar/base/rules/index.json` from the sources of all rules: `python scripts/build_rule_index.py`.

A rule's facts are the literal arguments of `RULE = Rule(...)`. They are read from the syntax tree, so that no room is
imported. `--check` writes nothing and exits with 1 when the file is out of date.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"
INDEX = SOURCE / "jumar" / "base" / "rules" / "index.json"
LEFT_OUT = {"doc"}
"""The documentation stays in the rule's file: `jumar.base.rules.documentation` reads it there."""


def main() -> int:
    """Write the index, or check it. Returns the exit code."""
    text = index_text()
    if "--check" in sys.argv[1:]:
        return int(INDEX.read_text("utf-8") != text)
    INDEX.write_text(text, "utf-8")
    sys.stdout.write(f"{text.count(chr(10)) - 2} rules in {INDEX}\n")
    return 0


def index_text() -> str:
    """Return the content of the index: one line a rule, by code. Raises ValueError when two rules share a code."""
    rows = sorted(rules(), key=lambda row: str(row["code"]))
    codes = [row["code"] for row in rows]
    twins = {code for code in codes if codes.count(code) > 1}
    if twins:
        raise ValueError(f"two rules share a code: {', '.join(sorted(twins))}")
    return "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n"


def rules() -> Iterator[dict[str, Any]]:
    """Yield the facts of each module-level `RULE = Rule(...)` below `src/jumar`."""
    for path in sorted((SOURCE / "jumar").rglob("*.py")):
        text = path.read_text("utf-8")
        if "\nRULE" not in text:
            continue
        for statement in ast.parse(text).body:
            call = _rule_call(statement)
            if call is not None:
                yield _facts(call, path) | {"module": _module(path)}


def _rule_call(statement: ast.stmt) -> ast.Call | None:
    """Return the call in `RULE = Rule(...)`, else None."""
    if isinstance(statement, ast.AnnAssign):
        targets: list[ast.expr] = [statement.target]
    elif isinstance(statement, ast.Assign):
        targets = statement.targets
    else:
        return None
    is_rule = isinstance(statement.value, ast.Call) and ast.unparse(statement.value.func) == "Rule"
    named = any(isinstance(target, ast.Name) and target.id == "RULE" for target in targets)
    return statement.value if is_rule and named and isinstance(statement.value, ast.Call) else None


def _facts(call: ast.Call, path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for argument in call.keywords:
        name = argument.arg
        if name is None or name in LEFT_OUT:
            continue
        if name == "severity" and isinstance(argument.value, ast.Attribute):
            facts[name] = argument.value.attr.lower()
            continue
        try:
            facts[name] = ast.literal_eval(argument.value)
        except ValueError as error:
            raise ValueError(f"{path}:{argument.value.lineno}: {name} of a RULE must be a literal") from error
    return facts


def _module(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


if __name__ == "__main__":
    sys.exit(main())
