"""`Site`: where the outcome of a device test goes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import libcst as cst

from jumar.convert.model.words import calls_cuda_only
from jumar.convert.rules.subject.guards.cuda_only import identifiers
from jumar.convert.syntax.devices import callee_name, target_names, values_of
from jumar.convert.syntax.literals import literal
from jumar.convert.syntax.scopes import is_named
from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import descendants, leaves

_WORD = re.compile(r"\w+")
_WRAPPERS = frozenset({"bool", "int", "all", "any"})
"""Functions whose result is the outcome of the tests they are given."""
_TRUTHS = ("True", "False")
_COMPREHENSIONS = (cst.GeneratorExp, cst.ListComp, cst.SetComp)
_TABLES = (cst.Tuple, cst.List, cst.Set)
_DECIDES = (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Return, cst.Assert, cst.Arg, cst.NamedExpr)


@dataclass(slots=True)
class Site:
    """Where a test's outcome goes."""

    near: list[str] = field(default_factory=list)
    """Names beside the test, and of what it is given to."""
    flags: list[str] = field(default_factory=list)
    """Names that stand for the outcome: the target of its value, the function that returns it, a keyword."""
    guarded: list[cst.CSTNode] = field(default_factory=list)
    """Code that runs only where CUDA is there."""
    holders: list[tuple[cst.CSTNode, bool]] = field(default_factory=list)
    """What stores, returns or passes on the outcome itself, and whether it is true there where CUDA is not."""


def site_of(source: Source, node: cst.CSTNode, negative: bool) -> Site:
    """Return where the outcome of the test `node` goes; `negative`: it is true where CUDA is not there."""
    site = Site()
    child, negative = _whole(source, node, negative, site)
    _follow(source, site, child, source.parent(child), negative)
    site.near = list(dict.fromkeys(site.near))
    return site


def is_condition(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether `node` (a test) decides something: it is, or is part of, a condition or a value that is kept."""
    child, _ = _whole(source, node, False, Site())
    parent = source.parent(child)
    if isinstance(parent, (cst.If, cst.IfExp, cst.While)):
        return parent.test is child
    if isinstance(parent, cst.Lambda):
        return parent.body is child
    if isinstance(parent, cst.DictElement):
        return parent.value is child
    if isinstance(parent, cst.Param):
        return parent.default is child
    return isinstance(parent, (*_DECIDES, cst.CompIf, cst.Index)) or _target_of(source, child) is not None


def _whole(source: Source, node: cst.CSTNode, negative: bool, site: Site) -> tuple[cst.CSTNode, bool]:
    """Return the largest expression whose outcome is the test's; what stands beside the test is noted in `site`."""
    child = node
    joined: cst.BooleanOperation | None = None
    while True:
        parent = source.parent(child)
        if isinstance(parent, cst.UnaryOperation):
            negative = negative != isinstance(parent.operator, cst.Not)
        elif isinstance(parent, cst.BooleanOperation):
            joined = parent
        elif isinstance(parent, cst.NamedExpr):
            site.flags.extend(target_names(source, parent))
            site.holders.append((parent, negative))
        elif isinstance(parent, cst.IfExp) and parent.test is child and _is_truth(parent):
            negative = negative != is_named(parent.body, "False")
        elif isinstance(parent, cst.Comparison) and _with_truth(parent, child) is not None:
            negative = negative == _with_truth(parent, child)
        else:
            wrapper = _wrapper(source, child)
            if wrapper is None:
                break
            parent = wrapper
        child = parent
    if joined is not None:
        site.near.extend(_beside(source, joined, node))
    return child, negative


def _beside(source: Source, whole: cst.BooleanOperation, node: cst.CSTNode) -> Iterator[str]:
    """Yield the names of a condition but for those of one test in it; a condition's names are counted once."""
    counts = source.derived(_counted).setdefault(whole, Counter())
    if not counts:
        counts.update(identifiers(whole))
    own = Counter(identifiers(node))
    yield from (name for name, count in counts.items() if count > own[name])


def _counted(_source: Source) -> dict[cst.BooleanOperation, Counter[str]]:
    return {}


def _is_truth(choice: cst.IfExp) -> bool:
    """Tell whether a conditional expression only spells out its test: `True if x.is_cuda else False`."""
    sides = (choice.body, choice.orelse)
    return all(is_named(side, *_TRUTHS) for side in sides) and not is_named(sides[1], _name(sides[0]))


def _with_truth(comparison: cst.Comparison, child: cst.CSTNode) -> bool | None:
    """Tell what truth a comparison asks for (`x.is_cuda == True`, `x.is_cuda is not True`); None for any other."""
    target = comparison.comparisons[0]
    if comparison.left is not child or len(comparison.comparisons) > 1 or not is_named(target.comparator, *_TRUTHS):
        return None
    if not isinstance(target.operator, (cst.Equal, cst.Is, cst.NotEqual, cst.IsNot)):
        return None
    return is_named(target.comparator, "True") == isinstance(target.operator, (cst.Equal, cst.Is))


def _name(node: cst.BaseExpression) -> str:
    return node.value if isinstance(node, cst.Name) else ""


def _wrapper(source: Source, child: cst.CSTNode) -> cst.Call | None:
    """Return the call of `bool`, `int`, `all` or `any` over a test, a comprehension of tests or a list of them."""
    parent = source.parent(child)
    if isinstance(parent, _COMPREHENSIONS) and parent.elt is child:
        parent = source.parent(parent)
    elif isinstance(parent, cst.Element):
        table = source.parent(parent)
        parent = source.parent(table) if isinstance(table, _TABLES) else None
    if not isinstance(parent, cst.Arg):
        return None
    call = source.parent(parent)
    is_whole = isinstance(call, cst.Call) and len(call.args) == 1 and callee_name(call) in _WRAPPERS
    return call if isinstance(call, cst.Call) and is_whole else None


def _follow(source: Source, site: Site, child: cst.CSTNode, parent: cst.CSTNode | None, negative: bool) -> None:
    function = source.enclosing(child, cst.FunctionDef)
    function_name = [function.name.value] if function is not None else []
    target = _target_of(source, child)
    if isinstance(parent, (cst.If, cst.While)):
        site.guarded.extend(_branch(source, parent, negative))
        site.holders.extend(_set_flags(parent.body, negative))
        if negative and leaves(parent.body):
            site.near.extend(function_name)
    elif isinstance(parent, cst.IfExp):
        site.guarded.append(parent.orelse if negative else parent.body)
        _follow(source, site, parent, source.parent(parent), False)
        site.holders.clear()
    elif isinstance(parent, (cst.Assign, cst.AnnAssign)):
        site.flags.extend(target_names(source, parent))
        site.holders.append((parent, negative))
    elif isinstance(parent, cst.AugAssign) or target is not None:
        kept = parent.target if isinstance(parent, cst.AugAssign) else target
        site.flags.extend(identifiers(kept) if isinstance(kept, cst.Name) else ())
        site.holders.extend([(kept, negative)] if kept is not None else [])
    elif isinstance(parent, (cst.Return, cst.Lambda, cst.Param)):
        site.flags.extend(function_name if isinstance(parent, cst.Return) else ())
        site.holders.append((parent, negative))
    elif isinstance(parent, cst.Index):
        site.guarded.extend(_picked(source, parent, negative))
    elif isinstance(parent, cst.DictElement):
        key = literal(source, parent.key)
        site.flags.extend([key.body] if key is not None and parent.value is child else [])
        site.holders.append((parent, negative))
    elif isinstance(parent, cst.Arg):
        _follow_argument(source, site, parent, negative)
    elif isinstance(parent, cst.Assert):
        site.near.extend(name for name in function_name if calls_cuda_only(name))
        site.near.extend(_message_words(parent.msg))
        site.guarded.extend([] if negative else _statements_behind(source, source.parent(parent)))


def _follow_argument(source: Source, site: Site, argument: cst.Arg, negative: bool) -> None:
    call = source.parent(argument)
    site.flags.extend([argument.keyword.value] if argument.keyword is not None else [])
    if not isinstance(call, cst.Call):
        return
    site.near.append(callee_name(call))
    site.holders.append((argument, negative))
    decorated = source.parent(source.parent(call) or call)
    skips = callee_name(call).lower()
    if isinstance(decorated, (cst.FunctionDef, cst.ClassDef)) and skips in ("skipif", "skipunless"):
        site.guarded.extend([decorated.body] if negative == (skips == "skipif") else [])


def _target_of(source: Source, child: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the target that a value of a tuple goes to: `use, n = x.is_cuda, x.dim()`."""
    element = source.parent(child)
    table = source.parent(element) if isinstance(element, cst.Element) else None
    statement = source.parent(table) if isinstance(table, (cst.Tuple, cst.List)) else None
    if not isinstance(table, (cst.Tuple, cst.List)) or not isinstance(statement, cst.Assign):
        return None
    targets = statement.targets[0].target
    if not isinstance(targets, (cst.Tuple, cst.List)) or len(targets.elements) != len(table.elements):
        return None
    pairs = zip(table.elements, targets.elements, strict=True)
    found = next((target for value, target in pairs if value is element), None)
    return found.value if isinstance(found, cst.Element) else None


def _set_flags(body: cst.BaseSuite, negative: bool) -> Iterator[tuple[cst.CSTNode, bool]]:
    """Yield the assignments of a branch that keep the outcome: `if x.is_cuda: use = True`."""
    for line in body.body:
        for statement in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            if isinstance(statement, cst.Assign) and is_named(statement.value, *_TRUTHS):
                yield statement, negative != is_named(statement.value, "False")


def _branch(source: Source, node: cst.If | cst.While, negative: bool) -> Iterator[cst.CSTNode]:
    if not negative:
        yield node.body
        return
    if node.orelse is not None:
        yield node.orelse
    if _raises(node.body):
        yield from _statements_behind(source, node)
    elif leaves(node.body):
        yield from _statements_after(source, node)


def _message_words(message: cst.CSTNode | None) -> Iterator[str]:
    """Yield the words of an assertion's message, which may name what needs CUDA."""
    texts = [] if message is None else [part for part in descendants(message) if isinstance(part, cst.SimpleString)]
    for text in texts:
        yield from _WORD.findall(text.raw_value)


def _raises(body: cst.BaseSuite) -> bool:
    """Tell whether a suite ends by raising: what follows is then the whole of the function, not a choice in it."""
    last = body.body[-1] if body.body else None
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Raise)


def _statements_behind(source: Source, node: cst.CSTNode | None) -> Iterator[cst.CSTNode]:
    """Yield the simple statements after one that refuses other devices: an assertion, or a branch that raises."""
    following = _statements_after(source, node) if node is not None else ()
    yield from (part for part in following if isinstance(part, cst.SimpleStatementLine))


def _statements_after(source: Source, node: cst.CSTNode) -> Iterable[cst.CSTNode]:
    parent = source.parent(node)
    body = list(getattr(parent, "body", ())) if isinstance(parent, (cst.IndentedBlock, cst.Module)) else []
    return body[body.index(node) + 1 :] if node in body else []


def _picked(source: Source, index: cst.Index, negative: bool) -> Iterator[cst.CSTNode]:
    """Yield what a table holds for CUDA: `{True: a, False: b}[x.is_cuda]`, `(b, a)[x.is_cuda]`."""
    subscript = source.enclosing(index, cst.Subscript)
    if subscript is None:
        return
    wanted = "False" if negative else "True"
    for table in (subscript.value, *values_of(source, subscript.value)):
        if isinstance(table, cst.Dict):
            entries = [element for element in table.elements if isinstance(element, cst.DictElement)]
            yield from (entry.value for entry in entries if is_named(entry.key, wanted))
        elif isinstance(table, (cst.Tuple, cst.List)) and len(table.elements) == 2:
            yield table.elements[0 if negative else 1].value
