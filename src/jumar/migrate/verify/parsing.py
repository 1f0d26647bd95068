"""JM185: what could be read before can be read after."""

from __future__ import annotations

import ast
import json
import sys
import warnings
from collections.abc import Iterator

from jumar.findings import Finding
from jumar.migrate.rules.proof import RESULT_DOES_NOT_PARSE
from jumar.migrate.verify.model import NOTEBOOK, PYTHON, Pair, notebook_cells


def check(pair: Pair) -> Iterator[Finding]:
    """Report a file whose original was read and whose result is not."""
    before, after = pair.outcome.before, pair.outcome.after
    if pair.path.endswith(PYTHON):
        error = _python_error(after)
        if error is not None and _python_error(before) is None:
            yield pair.finding(RESULT_DOES_NOT_PARSE, f"it is not valid Python any more: {error.msg}", error.lineno)
    elif pair.path.endswith(NOTEBOOK):
        yield from _notebook(pair)
    elif _reads(pair.path, before) and not _reads(pair.path, after):
        kind = pair.path.rpartition(".")[2].upper()
        yield pair.finding(RESULT_DOES_NOT_PARSE, f"it is not valid {kind} any more")


def _python_error(code: bytes | str) -> SyntaxError | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(code)
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
        yield pair.finding(RESULT_DOES_NOT_PARSE, "it is not the same notebook any more: its code cells are gone")
        return
    for number, (old, new) in enumerate(zip(before, after, strict=True), start=1):
        error = _python_error(new)
        if error is not None and _python_error(old) is None:
            yield pair.finding(
                RESULT_DOES_NOT_PARSE, f"code cell {number} is not valid Python any more: {error.msg}", cell=number
            )


def _reads(path: str, data: bytes) -> bool:
    """Tell whether JSON or TOML can be read; what this Python cannot judge is taken as readable."""
    try:
        if path.endswith(".json"):
            json.loads(data)
        elif path.endswith(".toml") and sys.version_info >= (3, 11):
            import tomllib

            tomllib.loads(data.decode())
    except ValueError:  # of json, of tomllib, and of the decoding
        return False
    return True
