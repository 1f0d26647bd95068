"""## What it does
Reports a name that the converted source uses and does not define, where the original did not use it or
did define it; and `torch_npu` or `torch.npu` used where `import torch_npu` has not run yet: the import
stands in a function, under `TYPE_CHECKING`, or after the first use.

## Why it matters
The program raises NameError or AttributeError when it comes to that line, which may be hours into a run.

## Example
```python
def setup():
    import torch_npu

stream = torch_npu.npu.current_stream()
```

## Use instead
```python
import torch_npu

stream = torch_npu.npu.current_stream()
```

## Fix safety
No edit is made.

## References
- https://github.com/PyCQA/pyflakes, which finds the undefined names
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyflakes import messages
from pyflakes.checker import Checker

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.convert.verify.pair import NOTEBOOK, Code, Pair

RULE = Rule(
    code="JM186",
    name="undefined-name-after-conversion",
    summary="The conversion uses a name that is not defined there.",
    severity=Severity.ERROR,
    doc=__doc__,
)


_UNDEFINED = (messages.UndefinedName, messages.UndefinedLocal, messages.ImportStarUsage)
"""Messages of pyflakes about names that nothing defines; with a star import it can only say "may be undefined"."""

_NOTEBOOK_NAMES = ("get_ipython", "display", "exit", "quit")


def find(pair: Pair) -> Iterator[Finding]:
    """Report names that only the converted file leaves undefined, and names of torch_npu that no import serves."""
    yield from _undefined(pair)
    yield from _unserved(pair)


def _undefined(pair: Pair) -> Iterator[Finding]:
    if pair.before is None or pair.after is None or pair.before.tree is None or pair.after.tree is None:
        return
    notebook = pair.path.endswith(NOTEBOOK)
    known = Counter(name for name, _ in undefined_names(pair.before, notebook=notebook))
    for name, line in undefined_names(pair.after, notebook=notebook):
        if known[name] > 0:
            known[name] -= 1
        else:
            yield pair.finding(RULE, f"`{name}` is not defined here", line, name=name)


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


_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class _Import:
    """An import of torch_npu that runs; `function` is the innermost one it stands in."""

    line: int
    function: _Function | None

    def serves(self, line: int, *, in_function: bool) -> bool:
        """Tell whether it has run when `line` does. A function is taken to be called after the module is loaded."""
        if self.function is None:
            return in_function or self.line <= line
        return self.line <= line <= (self.function.end_lineno or self.line)


def _unserved(pair: Pair) -> Iterator[Finding]:
    """Report, once a file, the first new use of torch_npu's names that no import serves."""
    if pair.before is None or pair.after is None or pair.after.tree is None:
        return
    functions = [node for node in ast.walk(pair.after.tree) if isinstance(node, _Function)]
    imports = list(_imports(pair.after.tree.body, None))
    unserved = []
    for name, line in _uses(pair.after):
        in_function = any(node.body[0].lineno <= line <= (node.end_lineno or line) for node in functions)
        if not any(found.serves(line, in_function=in_function) for found in imports):
            unserved.append((name, line))
    known = {name for name, _ in _uses(pair.before)} if unserved else set()
    for name, line in unserved:
        if name in known:
            continue
        where = f"; line {imports[0].line} imports it too late, or elsewhere" if imports else ""
        yield pair.finding(RULE, f"`{name}` is used where `import torch_npu` has not run{where}", line)
        return


def _uses(code: Code) -> list[tuple[str, int]]:
    """Return (name, line) of each reference to torch_npu's names, in the order of the text."""
    source = code.source
    if source is None:
        return []
    return [
        (reference.name, source.location(reference.node).line or 0)
        for reference in source.references
        if reference.name.startswith(("torch.npu.", "torch_npu."))
    ]


def _imports(body: Sequence[ast.AST], function: _Function | None) -> Iterator[_Import]:
    """Yield the imports of torch_npu that run, those under TYPE_CHECKING left out."""
    for node in body:
        if _imports_torch_npu(node):
            yield _Import(node.lineno, function)  # type: ignore[attr-defined]  # both import nodes have lines
        elif not (isinstance(node, ast.If) and _is_for_types(node.test)):
            inner = node if isinstance(node, _Function) else function
            yield from _imports(list(ast.iter_child_nodes(node)), inner)


def _imports_torch_npu(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.partition(".")[0] == "torch_npu" for alias in node.names)
    return isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "torch_npu"


def _is_for_types(test: ast.expr) -> bool:
    return ast.unparse(test).rpartition(".")[2] == "TYPE_CHECKING"
