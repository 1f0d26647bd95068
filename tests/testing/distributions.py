"""`install`: a distribution with entry points, laid out in a folder as pip would."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent


def install(folder: Path, name: str, entry_points: Mapping[str, Mapping[str, str]], modules: Mapping[str, str]) -> Path:
    """Write modules, and the metadata of `name` 1.0 with its entry points (group -> name -> target), into `folder`."""
    folder.mkdir(exist_ok=True)
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(dedent(text), "utf-8")
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "utf-8")
    lines = [
        line
        for group, entries in entry_points.items()
        for line in (f"[{group}]", *(f"{key} = {target}" for key, target in entries.items()), "")
    ]
    (info / "entry_points.txt").write_text("\n".join(lines), "utf-8")
    return folder


RULE = '''
"""{code} {name}.

## What it does
It finds.

## Why it matters
It is a test.

## Example
```python
pattern
```

## Use instead
Nothing.

## Fix safety
No edit is made.

## References
None.
"""
from jumar.base.findings import Severity
from jumar.base.rules import Rule
RULE = Rule(code="{code}", name="{name}", summary="A rule of a test.", severity=Severity.WARNING, doc=__doc__)
{find}
'''


def rule(code: str, name: str, find: str = "") -> str:
    """Return a module of a rule; without a `find` of its own it always finds one thing."""
    default = "def find(subject):\n    yield RULE.finding(f'{type(subject).__name__} was seen.', action='Look.')\n"
    return RULE.format(code=code, name=name, find=dedent(find) or default)
