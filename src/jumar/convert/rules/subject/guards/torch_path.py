"""`torch_path`: where a file that uses a compiled module has the same in PyTorch, and which functions that is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import libcst as cst

from jumar.base.text import listing
from jumar.convert.syntax.scopes import last_name
from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import descendants, leaves

_WORDS = r"reference|ref|torch|pytorch|native|python|py|naive|fallback|slow|cpu|eager|impl_torch|pure"
_SUFFIX = re.compile(rf"_(?:{_WORDS})$|(?:Reference|Ref|Torch|PyTorch|Native|Python|Naive|Fallback|CPU)$")
_PREFIX = re.compile(rf"^_?(?:{_WORDS})_")
_KERNEL = re.compile(r"^_+|_?(?:cuda|kernel|ext|fused|forward|fwd)$|^(?:fused|cuda)_|CUDA|Cuda|Fused|Function$|Kernel$")
_MAX_SHOWN = 4


def torch_path(source: Source, bound: str) -> tuple[str, ...]:
    """Return the places of the PyTorch path beside the uses of a compiled module's name: `bias_act_ref (line 12)`.

    Looked for are the handler of a `try` around its import, the other side of a test around its use, and functions
    and classes whose name says that they are the same in PyTorch.
    """
    if not bound:
        return ()
    uses = [node for node in source.nodes(cst.Name) if node.value == bound]
    imports = [alias for alias in source.nodes(cst.ImportAlias) if _bound(alias) == bound]
    found = [place for use in uses for place in _other_sides(source, use)]
    found += [place for use in (*uses, *imports) for place in _handlers(source, use)]
    names = {_core(name) for use in uses for name in _names_at(source, use)}
    definitions: list[cst.FunctionDef | cst.ClassDef] = [*source.nodes(cst.FunctionDef), *source.nodes(cst.ClassDef)]
    found += [
        f"{node.name.value} (line {source.location(node.name).line})"
        for node in definitions
        if _is_counterpart(node.name.value, names)
    ]
    found += [
        f"{source.code(alias.name)} (imported in line {source.location(alias).line})"
        for alias in source.nodes(cst.ImportAlias)
        if _is_counterpart(last_name(alias.name), names)
    ]
    return tuple(dict.fromkeys(found))


def path_sentence(places: tuple[str, ...]) -> str:
    """Return a sentence about the PyTorch path, or that there is none in the file."""
    if not places:
        return "No PyTorch path for it was found in this file: write one."
    return f"The PyTorch path is there for the NPU: {listing(list(places), _MAX_SHOWN)}."


def _is_counterpart(name: str, names: set[str]) -> bool:
    stripped = _PREFIX.sub("", _SUFFIX.sub("", name))
    return stripped != name and bool(_core(stripped)) and _core(stripped) in names


def _core(name: str) -> str:
    """Return a function's name without what says that it is a kernel or a class: `bias_act` of `_bias_act_cuda`."""
    before = ""
    while before != name:
        before, name = name, _KERNEL.sub("", name)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _names_at(source: Source, use: cst.Name) -> Iterator[str]:
    """Yield the name of a kernel that is called, of the module, and of the functions and classes around the call."""
    yield use.value
    parent = source.parent(use)
    if isinstance(parent, cst.Attribute) and parent.value is use:
        yield parent.attr.value
    for around in source.ancestors(use):
        if isinstance(around, (cst.FunctionDef, cst.ClassDef)):
            yield around.name.value


def _other_sides(source: Source, use: cst.Name) -> Iterator[str]:
    """Yield where a test around the use leads otherwise: its `else`, or what stands behind a branch that returns."""
    for child, around in pairwise((use, *source.ancestors(use))):
        if isinstance(around, (cst.FunctionDef, cst.Lambda)):
            yield from _behind_return(source, around, use)
            return
        if isinstance(around, cst.IfExp) and child is around.body:
            yield _place(source, around.orelse)
        elif isinstance(around, cst.IfExp) and child is around.orelse:
            yield _place(source, around.body)
        elif isinstance(around, cst.If) and child is around.body:
            other = around.orelse
            if isinstance(other, cst.Else):
                yield _place(source, other.body.body[0])
            elif leaves(around.body) and (rest := _after(source, around)) is not None:
                yield _place(source, rest)


def _behind_return(source: Source, function: cst.CSTNode, use: cst.Name) -> Iterator[str]:
    """Yield the branch that returns before the use is reached: `if not HAS_EXT: return x * 2`."""
    body = function.body if isinstance(function, cst.FunctionDef) else None
    for statement in body.body if isinstance(body, cst.IndentedBlock) else ():
        inside = any(node is use for node in descendants(statement))
        if isinstance(statement, cst.If) and not inside and leaves(statement.body):
            if any(isinstance(node, cst.Return) and node.value is not None for node in descendants(statement.body)):
                yield _place(source, statement.body.body[0])
        elif inside:
            return


def _bound(alias: cst.ImportAlias) -> str:
    return alias.evaluated_alias or last_name(alias.name)


def _handlers(source: Source, use: cst.CSTNode) -> Iterator[str]:
    """Yield the handlers of a `try` around an import or call that define or import what stands in for the module."""
    for child, around in pairwise((use, *source.ancestors(use))):
        if not isinstance(around, cst.Try) or child is not around.body:
            continue
        for handler in around.handlers:
            if any(_stands_in(node) for node in descendants(handler.body)):
                yield _place(source, handler.body.body[0])


def _stands_in(node: cst.CSTNode) -> bool:
    """Tell whether a node of a handler defines, imports or computes something, and does not only log or raise."""
    if isinstance(node, cst.Return):
        return node.value is not None and last_name(node.value) not in ("None", "False")
    return isinstance(node, (cst.FunctionDef, cst.Import, cst.ImportFrom))


def _after(source: Source, node: cst.CSTNode) -> cst.CSTNode | None:
    parent = source.parent(node)
    body: list[cst.CSTNode] = list(parent.body) if isinstance(parent, (cst.IndentedBlock, cst.Module)) else []
    behind = body[body.index(node) + 1 :] if node in body else []
    return next((each for each in behind if not isinstance(each, (cst.FunctionDef, cst.ClassDef))), None)


def _place(source: Source, node: cst.CSTNode) -> str:
    function = source.enclosing(node, cst.FunctionDef)
    inside = f" of {function.name.value}" if function is not None else ""
    return f"line {source.location(node).line}{inside}"
