"""A file of the folder that is not Python 3 and was left out of the assessment.

## What it does
Names each file that does not parse, with the line and column, and goes on with the others.

## Why it matters
What such a file uses is not in the assessment. Often it is an example in Python 2 or a template, and
nothing is lost; if the project imports it, the assessment is not complete.

## Example
`print "loss", loss` is Python 2.

## Use instead
Python 3 syntax, or leave the file out of the folder.

## Fix safety
No edit is made.

## References
LibCST, the parser that reads the sources.
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM208",
    name="unreadable-source",
    summary="A file is not valid Python 3 and was not assessed.",
    severity=Severity.WARNING,
    doc=__doc__,
)
