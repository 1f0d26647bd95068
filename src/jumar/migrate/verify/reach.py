"""JM186, too: torch_npu is imported, on a path that runs, before its names are used."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jumar.findings import Finding
from jumar.migrate.rules.proof import UNDEFINED_NAME
from jumar.migrate.verify.model import Code, Pair

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


def check(pair: Pair) -> Iterator[Finding]:
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
        yield pair.finding(UNDEFINED_NAME, f"`{name}` is used where `import torch_npu` has not run{where}", line)
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
