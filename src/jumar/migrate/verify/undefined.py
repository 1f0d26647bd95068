"""JM186: no name is undefined that was not undefined before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pyflakes import messages
from pyflakes.checker import Checker

from jumar.findings import Finding
from jumar.migrate.rules.proof import UNDEFINED_NAME
from jumar.migrate.verify.model import NOTEBOOK, Code, Pair

_UNDEFINED = (messages.UndefinedName, messages.UndefinedLocal, messages.ImportStarUsage)
"""Messages of pyflakes about names that nothing defines; with a star import it can only say "may be undefined"."""

_NOTEBOOK_NAMES = ("get_ipython", "display", "exit", "quit")


def check(pair: Pair) -> Iterator[Finding]:
    """Report names that only the converted file leaves undefined."""
    if pair.before is None or pair.after is None or pair.before.tree is None or pair.after.tree is None:
        return
    notebook = pair.path.endswith(NOTEBOOK)
    known = Counter(name for name, _ in undefined_names(pair.before, notebook=notebook))
    for name, line in undefined_names(pair.after, notebook=notebook):
        if known[name] > 0:
            known[name] -= 1
        else:
            yield pair.finding(UNDEFINED_NAME, f"`{name}` is not defined here", line, name=name)


def undefined_names(code: Code, *, notebook: bool = False) -> list[tuple[str, int]]:
    """Return (name, line) of each use of a name that nothing defines, in the order of the text."""
    if code.tree is None:
        return []
    checker = Checker(code.tree, builtins=set(_NOTEBOOK_NAMES) if notebook else None)
    found = [
        (str(message.message_args[0]), int(message.lineno))
        for message in checker.messages
        if isinstance(message, _UNDEFINED)
    ]
    return sorted(found, key=lambda item: item[1])
