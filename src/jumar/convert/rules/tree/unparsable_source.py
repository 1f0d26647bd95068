"""## What it does
Reports a file that cannot be read as Python: a syntax error, Python 2, a template, or bytes that are
not text of the encoding the file declares. The file is copied as it is.

## Why it matters
Nothing in it was converted or even looked at.

## Example
```python
print "epoch", epoch
```

## Use instead
```python
print("epoch", epoch)
```

## Fix safety
No fix.

## References
- https://docs.python.org/3/reference/grammar.html
"""

from __future__ import annotations

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.convert.model.text import SourceError

RULE = Rule(
    code="JM115",
    name="unparsable-source",
    summary="A file cannot be read as Python.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def sentence(path: str, error: SourceError) -> str:
    """Return one sentence that says which file, where, why, and what to do."""
    where = f", line {error.line}, column {error.column}" if error.line is not None else ""
    return f"{path}{where}: {error.message}; mend the file (Python 3 is needed) or leave it out."


def report(path: str, error: SourceError) -> Finding:
    """Return the finding for a file that cannot be read."""
    return RULE.finding(
        f"The file cannot be read as Python: {error.message}.",
        where=Location(path=path, line=error.line, column=error.column),
        action="Mend it (2to3 helps with Python 2), or convert it by hand.",
    )
