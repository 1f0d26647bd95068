"""Starts and ends the process group of a converted script, and places its helper functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from jumar.convert.model.edits import Replacement
from jumar.convert.rules.distributed.program.change import Change, around, line_before, lines_after, starts_line
from jumar.convert.rules.distributed.program.helpers import Words, block
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.devices import callee_name
from jumar.convert.syntax.scopes import dotted_name
from jumar.convert.syntax.source import Source

_GUARD = "if __name__ == {quote}__main__{quote}:"
_EXITS = frozenset({"sys.exit", "builtins.exit", "builtins.quit", "builtins.SystemExit"})


def main_guard(source: Source) -> cst.If | None:
    """Return the module's last `if __name__ == '__main__':`, or None."""
    found = [node for node in source.module.body if isinstance(node, cst.If) and _is_guard(node.test)]
    return found[-1] if found else None


def _is_guard(test: cst.BaseExpression) -> bool:
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    sides = (test.left, test.comparisons[0].comparator)
    names = any(isinstance(side, cst.Name) and side.value == "__name__" for side in sides)
    texts = any(isinstance(side, cst.SimpleString) and side.value[1:-1] == "__main__" for side in sides)
    return names and texts and isinstance(test.comparisons[0].operator, cst.Equal)


def changes(context: Context, helpers: Sequence[str], others: Sequence[Change]) -> Iterator[Change]:
    """Yield the definitions, the start and the end of a script whose other changes are `others`."""
    source = context.source
    guard = main_guard(source)
    early = guard is None or any(change.shared and _runs_before(source, change, guard) for change in others)
    at = _place(source, [change.span[0] for change in others if change.replacements])
    text = block(helpers, words(context), _shared_seeds(source), _imported_before(source, at))
    start = _GUARD.format(quote=context.quote) + "\n    start_ranks()"
    yield _definitions(context, at, text + ("\n\n\n" + start if early else ""), early=early)
    if guard is not None and not early:
        yield _start_in_guard(source, guard)
    yield _end(context, guard)


def _runs_before(source: Source, change: Change, guard: cst.If) -> bool:
    """Tell whether a change is in code that runs while the module is imported."""
    start, _ = change.span
    inside = [source.span(guard)]
    inside += [source.span(node) for node in (*source.nodes(cst.FunctionDef), *source.nodes(cst.Lambda))]
    return not any(begin <= start < end for begin, end in inside)


def _imported_before(source: Source, at: int) -> frozenset[str]:
    """Return the modules that plain imports at module level have bound before an offset."""
    lines = [
        line for line in source.module.body if isinstance(line, cst.SimpleStatementLine) and source.span(line)[0] < at
    ]
    imports = [small for line in lines for small in line.body if isinstance(small, cst.Import)]
    found = {(dotted_name(alias.name), alias.asname) for statement in imports for alias in statement.names}
    return frozenset(name for name, renamed in found if name is not None and renamed is None)


def _definitions(context: Context, at: int, text: str, *, early: bool) -> Change:
    source = context.source
    newline = source.text.newline
    code = source.text.text
    body = f"\n\n{text}\n"
    if at < len(code) and not _blank_line(code, at):
        body += "\n\n"
    lines = body.replace("\n", newline)
    if at and code[at - 1] not in "\r\n":
        lines = newline + lines
    what = "and joins the others of its training" if early else "and what they have in common is defined once"
    return Change(
        span=(at, at),
        message=f"Each process that torchrun starts knows its rank {what}.",
        replacements=(Replacement(at, at, lines),),
    )


def _blank_line(code: str, at: int) -> bool:
    return code[at : at + 2] in ("\r\n",) or code[at] in "\r\n"


def _place(source: Source, edited: Sequence[int]) -> int:
    """Return the offset of the line after the imports that come before everything else that matters."""
    first = min(edited, default=len(source.text.text))
    last: cst.CSTNode | None = None
    for statement in source.module.body:
        if source.span(statement)[0] >= first or isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            break
        if _holds_import(source, statement):
            if source.span(statement)[1] > first:
                break
            last = statement
    if last is None:
        return 0
    return source.text.line_end(source.span(last)[1] - 1)


def _holds_import(source: Source, statement: cst.CSTNode) -> bool:
    if isinstance(statement, cst.SimpleStatementLine):
        return any(isinstance(small, (cst.Import, cst.ImportFrom)) for small in statement.body)
    if not isinstance(statement, (cst.Try, cst.If)) or _is_guard(getattr(statement, "test", cst.Name("x"))):
        return False
    imports = [*source.nodes(cst.Import), *source.nodes(cst.ImportFrom)]
    return any(statement in source.ancestors(node) for node in imports)


def _start_in_guard(source: Source, guard: cst.If) -> Change:
    first = guard.body.body[0]
    start, _ = source.span(first)
    if isinstance(guard.body, cst.IndentedBlock) and starts_line(source, first):
        edit = line_before(source, first, "start_ranks()")
    else:
        edit = Replacement(start, start, "start_ranks(); ")
    return Change(
        span=(edit.start, edit.start),
        message="Only the script itself joins the process group, not what imports it.",
        replacements=(edit,),
        helpers=frozenset({"start_ranks"}),
    )


def _end(context: Context, guard: cst.If | None) -> Change:
    source = context.source
    message = "The ranks leave their process group when the training has ended."
    statements = guard.body.body if guard is not None else source.module.body
    last = statements[-1]
    result = _exit_argument(source, last)
    if result is not None:
        return Change(span=source.span(result), message=message, replacements=around(source, result, "stop_ranks("))
    if guard is None:
        text = "\n\n" + _GUARD.format(quote=context.quote) + "\n    stop_ranks()"
        edit = lines_after(source, _end_of(source, last), text)
        return Change(span=(edit.start, edit.start), message=message, replacements=(edit,))
    end = _end_of(source, last)
    if not isinstance(guard.body, cst.IndentedBlock):
        return Change(span=(end, end), message=message, replacements=(Replacement(end, end, "; stop_ranks()"),))
    start = source.span(guard.body.body[0])[0]
    indent = source.text.text[source.text.line_start(start) : start]
    edit = lines_after(source, end, f"{indent}stop_ranks()")
    return Change(span=(edit.start, edit.start), message=message, replacements=(edit,))


def _end_of(source: Source, statement: cst.CSTNode) -> int:
    """Return the end of a statement's last token, which for a block is that of its last statement."""
    body = getattr(statement, "body", None)
    end = source.span(statement)[1]
    for part in ("orelse", "finalbody", "handlers"):
        more = getattr(statement, part, None)
        for item in more if isinstance(more, (list, tuple)) else [more] if more is not None else []:
            end = max(end, _end_of(source, item))
    if isinstance(body, cst.BaseSuite):
        end = max(end, *(_end_of(source, item) for item in body.body))
    return end


def _exit_argument(source: Source, statement: cst.CSTNode) -> cst.BaseExpression | None:
    """Return what `sys.exit(main())` or `raise SystemExit(main())` is given, None for other statements."""
    small = (
        statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else statement
    )
    call = small.value if isinstance(small, cst.Expr) else small.exc if isinstance(small, cst.Raise) else None
    if not isinstance(call, cst.Call) or len(call.args) != 1 or source.qualified(call.func) not in _EXITS:
        return None
    return call.args[0].value


def words(context: Context) -> Words:
    """Return how the target writes what the helpers need."""
    kind = context.dialect.device_word('"')
    backend = context.dialect.backend_word('"')
    if context.options.target == "npu":
        device = f'f"{kind[1:-1]}:{{LOCAL_RANK}}"'
        set_device = "torch.npu.set_device(LOCAL_RANK)"
        return Words(set_device=set_device, backend=backend, device=device, device_ids="[LOCAL_RANK]")
    return Words(
        set_device='if LOCAL_DEVICE != "cpu":\n        torch.accelerator.set_device_index(LOCAL_RANK)',
        backend=backend,
        device=f'f"{{{kind}}}:{{LOCAL_RANK}}" if {kind} != "cpu" else "cpu"',
        device_ids='None if LOCAL_DEVICE == "cpu" else [LOCAL_RANK]',
    )


_SEEDERS = {"torch": "torch.manual_seed", "random": "random.seed", "numpy": "numpy.random.seed"}


def _shared_seeds(source: Source) -> list[str]:
    """Return the modules whose random numbers the ranks are to share: those the file does not seed on import."""
    imported = {name.partition(".")[0] for reference in source.references for name in (reference.name,)} | {"torch"}
    seeded = {source.qualified(call.func) for call in source.nodes(cst.Call) if _on_import(source, call)}
    return [module for module, seeder in _SEEDERS.items() if module in imported and seeder not in seeded]


def _on_import(source: Source, call: cst.Call) -> bool:
    guard = main_guard(source)
    return (
        guard is not None
        and callee_name(call) in ("manual_seed", "seed")
        and source.enclosing(call, cst.FunctionDef, cst.Lambda) is None
        and guard not in source.ancestors(call)
    )
