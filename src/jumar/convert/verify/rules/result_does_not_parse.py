"""## What it does
Reports a converted file that can no longer be read: a Python source or a cell of a notebook that
Python's parser refuses, or a JSON or TOML file that is none any more, where the original was one.

## Why it matters
Such a file fails when it is loaded. It is an error of the conversion, or of a user rule whose new text
is not Python.

## Example
```python
x = torch.npu.current_stream(
```

## Use instead
```python
x = torch.npu.current_stream()
```

## Fix safety
No edit is made.

## References
- `jumar convert --verify`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.convert.model.text import parse_python
from jumar.convert.verify.pair import NOTEBOOK, PYTHON, Pair, notebook_cells

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RULE = Rule(
    code="JM185",
    name="result-does-not-parse",
    summary="A converted file can no longer be read.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(pair: Pair) -> Iterator[Finding]:
    """Report a file whose original was read and whose result is not."""
    before, after = pair.outcome.before, pair.outcome.after
    if pair.path.endswith(PYTHON):
        error = _python_error(after)
        if error is not None and _python_error(before) is None:
            yield pair.finding(RULE, f"it is not valid Python any more: {error.msg}", error.lineno)
    elif pair.path.endswith(NOTEBOOK):
        yield from _notebook(pair)
    elif _reads(pair.path, before) and not _reads(pair.path, after):
        kind = pair.path.rpartition(".")[2].upper()
        yield pair.finding(RULE, f"it is not valid {kind} any more")


def _python_error(code: bytes | str) -> SyntaxError | None:
    try:
        parse_python(code)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError) as error:
        return SyntaxError(str(error))
    return None


def _notebook(pair: Pair) -> Iterator[Finding]:
    before, after = notebook_cells(pair.outcome.before), notebook_cells(pair.outcome.after)
    if before is None:
        return
    if after is None or len(after) != len(before):
        yield pair.finding(RULE, "it is not the same notebook any more: its code cells are gone")
        return
    for number, (old, new) in enumerate(zip(before, after, strict=True), start=1):
        error = _python_error(new)
        if error is not None and _python_error(old) is None:
            yield pair.finding(RULE, f"code cell {number} is not valid Python any more: {error.msg}", cell=number)


def _reads(path: str, data: bytes) -> bool:
    """Tell whether JSON or TOML can be read."""
    try:
        if path.endswith(".json"):
            json.loads(data)
        elif path.endswith(".toml"):
            tomllib.loads(data.decode())
    except ValueError:  # of json, of tomllib, and of the decoding
        return False
    return True
