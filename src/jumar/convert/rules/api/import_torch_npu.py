"""## What it does
Adds, once each, the statements at module level that edits rest on. For the NPU that is `import torch_npu`
in each file that names it: after the first `import torch`, also inside the `try` or the function that is the
only place where torch is imported. For `--target agnostic` it is the definition of DEVICE_TYPE, after the
imports and before its first use. Where no place is right, nothing is added and the rule says so.

## Why it matters
Importing torch_npu is what creates `torch.npu`, `.npu()` and the `npu` device. PyTorch loads it by
itself from version 2.5 on, unless TORCH_DEVICE_BACKEND_AUTOLOAD=0; the import makes the file work
either way, and fail with a clear message where torch_npu is missing.

## Example
```python
import torch

torch.cuda.set_device(0)
```

## Use instead
```python
import torch
import torch_npu  # noqa: F401

torch.npu.set_device(0)
```

## Fix safety
Safe.

## References
- https://pytorch.org/tutorials/unstable/python_extension_autoload.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject import preamble
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.preamble import Place
from jumar.convert.syntax.scopes import dotted_name
from jumar.convert.syntax.source import Source

RULE = Rule(
    code="JM107",
    name="import-torch-npu",
    summary="Edits rest on a statement that the module lacks (import torch_npu, DEVICE_TYPE = ...).",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="safe",
)

_IMPORT = re.compile(r"import (?P<module>[\w.]+)(?: as (?P<name>\w+))?|from (?P<origin>[\w.]+) import (?P<item>\w+)")
_NPU = re.compile(r"npu|hccl", re.IGNORECASE)
_TORCH, _TORCH_NPU = "import torch", "import torch_npu"


def find(context: Context) -> Iterator[Proposal]:
    """Propose each statement that an edit which is made needs and the module does not have."""
    made = [
        proposal
        for proposal in context.proposals
        if proposal.replacements and context.options.makes(proposal.rule, proposal.safety)
    ]
    needed: dict[str, int] = {}
    for proposal in made:
        first = min(replacement.start for replacement in proposal.replacements)
        for statement in (*proposal.requires, *context.dialect.needs(proposal.replacements)):
            needed[statement] = min(needed.get(statement, first), first)
    missing = {statement: first for statement, first in needed.items() if not _is_there(context, statement, made)}
    if _TORCH_NPU in missing:
        del missing[_TORCH_NPU]
        yield from _torch_npu(context, made)
    yield from _others(context, missing, [edit for proposal in made for edit in proposal.replacements])


def _is_there(context: Context, statement: str, made: list[Proposal]) -> bool:
    """Tell whether the module has a statement already, or an edit at its top level writes it."""
    if any(_writes(context.source, statement, proposal) for proposal in made):
        return True
    match = _IMPORT.fullmatch(statement)
    if match is None:
        return any(_same(context.source.code(node), statement) for node in context.source.module.body)
    return _is_imported(context.source, match)


def _same(code: str, statement: str) -> bool:
    return "".join(code.split()).replace('"', "'") == "".join(statement.split()).replace('"', "'")


def _writes(source: Source, statement: str, proposal: Proposal) -> bool:
    if not statement.startswith(("import ", "from ")):
        return False
    return any(
        replacement.text.strip() == statement and source.text.line_start(replacement.start) == replacement.start
        for replacement in proposal.replacements
    )


def _is_imported(source: Source, match: re.Match[str]) -> bool:
    """Tell whether a name is imported outside of functions; an import of torch_npu counts in functions too."""
    if match["module"] == "torch_npu":
        imported = {dotted_name(alias.name) or "" for node in source.nodes(cst.Import) for alias in node.names}
        return any(name.partition(".")[0] == "torch_npu" for name in imported)
    if "." in (match["module"] or "") and not match["name"]:  # `import a` does not bring in `a.b`
        written = [dotted_name(alias.name) or "" for node in source.nodes(cst.Import) for alias in node.names]
        return any(f"{name}.".startswith(f"{match['module']}.") for name in written)
    qualified = match["module"] or f"{match['origin']}.{match['item']}"
    bound = match["name"] or match["item"] or qualified.partition(".")[0]
    wanted = qualified if match["name"] or match["item"] else bound
    scope = source.tree.own_scopes[source.module]
    return any(binding.kind == "import" and binding.qualified == wanted for binding in scope.bindings.get(bound, []))


def _torch_npu(context: Context, made: list[Proposal]) -> Iterator[Proposal]:
    """Propose `import torch_npu` beside the import of torch that comes first where it takes effect."""
    source = context.source
    statements = preamble.torch_imports(source)
    plain = next((node for node in statements if preamble.block_of(source, node) is source.module), None)
    chosen = [plain] if plain is not None else []
    if plain is None:
        chosen = [n for n in statements if preamble.block_of(source, n) and preamble.is_conditional(source, n)][:1]
    if not chosen:
        chosen = [n for n in statements if preamble.block_of(source, n) and _edits_around(context, n, made)]
    for statement in chosen:
        line = source.parent(statement)
        assert line is not None
        place = preamble.before(source, line) if _names_npu(source, line, made) else preamble.after(source, line)
        yield _insertion(
            place.line(source, f"{_TORCH_NPU}  # noqa: F401"), "`import torch_npu` makes the npu device known."
        )
    if statements and not chosen:
        yield Proposal(
            rule=RULE, span=source.span(statements[0]),
            message="torch is imported where no statement can follow it, so `import torch_npu` was not added.",
            action="Add `import torch_npu` after this import if PyTorch's backend autoload is switched off.",
        )  # fmt: skip


def _edits_around(context: Context, statement: cst.CSTNode, made: list[Proposal]) -> bool:
    """Tell whether the function that a statement stands in holds edits."""
    function = context.source.enclosing(statement, cst.FunctionDef)
    if function is None:
        return False
    start, end = context.source.span(function)
    return any(start <= replacement.start < end for proposal in made for replacement in proposal.replacements)


def _names_npu(source: Source, line: cst.CSTNode, made: list[Proposal]) -> bool:
    """Tell whether an edit within a line of imports names the NPU, so that torch_npu must come before it."""
    start, end = source.span(line)
    return any(
        start <= replacement.start < end and _NPU.search(replacement.text)
        for proposal in made
        for replacement in proposal.replacements
    )


def _insertion(replacement: Replacement, message: str) -> Proposal:
    return Proposal(
        rule=RULE, span=(replacement.start, replacement.start), message=message, replacements=(replacement,)
    )


def _others(context: Context, missing: dict[str, int], edits: list[Replacement]) -> Iterator[Proposal]:
    """Propose the other imports, then the definitions that rest on them."""
    source = context.source
    imports = [statement for statement in missing if _IMPORT.fullmatch(statement)]
    definitions = [statement for statement in missing if statement not in imports]
    first = min(missing.values(), default=0)
    place = preamble.head(source, first, edits)
    torch = _torch_line(source) if definitions else None
    if torch is not None:
        beside = preamble.after(source, torch)
        if beside.indent:
            place = beside
        elif beside.offset > place.offset and _TORCH not in imports:
            imports.insert(0, _TORCH)
    for statement in imports:
        yield _insertion(place.line(source, statement), f"`{statement}` is needed by what was converted.")
    for statement in definitions:
        edit = place.line(source, statement, apart=not place.indent, first=not imports)
        yield _insertion(edit, _why(statement))
    if _TORCH in imports and preamble.torch_imports(source):
        yield _eager(place)


def _why(statement: str) -> str:
    """Return why a definition is inserted."""
    name, _, _ = statement.rpartition("\n")[2].partition(" =")
    if name.isupper():
        return f"`{name}` holds the kind of device that is there."
    return "It is needed by what was converted."


def _torch_line(source: Source) -> cst.CSTNode | None:
    """Return the first line outside of functions that imports torch itself."""
    for node in preamble.torch_imports(source):
        names = (
            {alias.evaluated_alias or dotted_name(alias.name) for alias in node.names}
            if isinstance(node, cst.Import)
            else set()
        )
        if names and preamble.block_of(source, node) is not None and preamble.is_conditional(source, node):
            return source.parent(node)
    return None


def _eager(place: Place) -> Proposal:
    return Proposal(
        rule=RULE, span=(place.offset, place.offset), severity=Severity.INFO, confidence="likely",
        message="torch is now imported when this module is, because its device is asked for there.",
        action="Check that nothing relied on importing torch late.",
    )  # fmt: skip
