"""IPython's additions to Python in a cell: found, and masked by names of the same length."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass, field

_CELL_MAGIC = re.compile(r"\s*%%([\w!]+)[ \t]*([^\n]*)(?:\n|\Z)")
_LINE_MAGIC = re.compile(
    r"^[ \t]*(?:[A-Za-z_][\w.,\[\] \t]*=[ \t]*)?(?P<magic>(?:!|%[A-Za-z])(?:[^\n\\]|\\\n|\\.)*|\?+[\w.*]+)"
    r"|^(?P<helped>[ \t]*[\w.*%]+\?\??)[ \t]*$",
    re.MULTILINE,
)
SHELL_MAGICS = frozenset({"bash", "sh", "script", "system", "!", "sx"})
PYTHON_MAGICS = frozenset({"time", "timeit", "capture", "prun", "python", "python3", "memit", "pypy", "px"})


@dataclass(slots=True)
class ReadCell:
    """A cell taken apart: Python with the magics masked, and the spans that are for the shell."""

    python: str | None = None
    """Of the cell's length; None where the cell holds no Python that can be read."""
    commands: list[tuple[int, int]] = field(default_factory=list)
    """Spans of shell commands."""
    variables: list[tuple[int, int]] = field(default_factory=list)
    """Spans of `%env`'s argument."""
    error: str = ""
    """Why the Python cannot be read."""


def read_cell(text: str) -> ReadCell:
    """Take a cell apart. Never raises."""
    magic = _CELL_MAGIC.match(text)
    if magic is None:
        return _python_cell(text, 0)
    name = magic.group(1)
    if name in SHELL_MAGICS or (name == "writefile" and re.search(r"\.(ba)?sh\s*$", magic.group(2))):
        return ReadCell(commands=[(magic.end(), len(text))])
    if name in PYTHON_MAGICS:
        return _python_cell(text, magic.end())
    return ReadCell(error=f"%%{name} is not read" if re.search(r"cuda|nccl", text, re.IGNORECASE) else "")


def _python_cell(text: str, start: int) -> ReadCell:
    body = masked(text, 0, start) if start else text
    error = syntax_error(body)
    if error is None:
        return ReadCell(python=body)
    found = ReadCell()
    for match in _LINE_MAGIC.finditer(text, start):
        span = match.span("magic") if match["magic"] is not None else match.span("helped")
        indent = len(match.group()) - len(match.group().lstrip())
        low = span[0] if match["magic"] is not None else span[0] + indent
        body = masked(body, low, span[1])
        _note(text, low, span[1], found)
    error = syntax_error(body)
    if error is not None:
        return ReadCell(commands=found.commands, variables=found.variables, error=error)
    found.python = body
    return found


def _note(text: str, start: int, end: int, found: ReadCell) -> None:
    """Note what the shell reads of the magic in `text[start:end]`."""
    magic = re.compile(r"!+|%(?:sx|system)\b|%(?=pip|conda|mamba)|%run\b|%(?:set_)?env\b").match(text, start, end)
    if magic is None:
        return
    (found.variables if magic.group().endswith("env") else found.commands).append((magic.end(), end))


def masked(text: str, start: int, end: int) -> str:
    """Return `text` with a name in place of the characters from `start` to `end`; lines and lengths stay."""
    first, newline, rest = text[start:end].partition("\n")
    blank = re.sub(r"[^\n]", " ", rest)
    return text[:start] + "_" * len(first) + newline + blank + text[end:]


def syntax_error(code: str) -> str | None:
    """Return what Python has against `code`, None where it reads it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(code)
        except SyntaxError as error:
            return f"line {error.lineno}: {error.msg}"
        except (ValueError, RecursionError, MemoryError) as error:
            return str(error) or type(error).__name__
    return None
