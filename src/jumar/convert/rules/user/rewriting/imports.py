"""Renames in import statements. The file keeps the name by which it uses the import."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.convert.model.edits import Replacement
from jumar.convert.rules.subject.agnostic_imports import without_items
from jumar.convert.rules.user.rewriting.draft import Draft
from jumar.convert.rules.user.rewriting.places import absolute
from jumar.convert.syntax.scopes import dotted_name
from jumar.convert.syntax.source import Source
from jumar.convert.user_rules.model import UserRule
from jumar.convert.user_rules.patterns import renamed


def renamed_imports(source: Source, rule: UserRule) -> Iterator[Draft]:
    """Yield what each import statement with a name that `rule` renames becomes."""
    for statement in source.nodes(cst.Import):
        for alias in statement.names:
            draft = _plain_import(source, rule, alias)
            if draft is not None:
                yield draft
    for origin in source.nodes(cst.ImportFrom):
        yield from _from_import(source, rule, origin)


def new_name(rule: UserRule, name: str) -> str | None:
    """Return the new name of a module or member, also where only a package around it is renamed; else None."""
    if rule.rename is None:
        return None
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        head = ".".join(parts[:end])
        for pattern in rule.patterns:
            if not pattern.is_attribute and pattern.match(head) is not None:
                return ".".join([renamed(pattern, head, rule.rename), *parts[end:]])
    return None


def _plain_import(source: Source, rule: UserRule, alias: cst.ImportAlias) -> Draft | None:
    name = dotted_name(alias.name) or ""
    new = new_name(rule, name)
    if new is None:
        return None
    draft = Draft(source.span(alias), f"import {name}")
    bound, new_root = name.partition(".")[0], new.partition(".")[0]
    text = new
    if alias.asname is None and new_root != bound:
        root = new_name(rule, bound)
        if "." not in name:
            text = f"{new} as {name}"
        else:
            text = f"{new}, {root} as {bound}" if root is not None else f"{new}, {bound}"
    draft.replacements.append(Replacement(*source.span(alias.name), text))
    return draft


def _from_import(source: Source, rule: UserRule, statement: cst.ImportFrom) -> Iterator[Draft]:
    written = dotted_name(statement.module) or "" if statement.module is not None else ""
    module = absolute(source.path, "." * len(statement.relative) + written)
    new_module = new_name(rule, module) if module else None
    if new_module is not None and statement.module is not None:
        yield _module(source, statement.module, module, new_module, is_relative=bool(statement.relative))
        return
    if isinstance(statement.names, cst.ImportStar):
        return
    for alias in statement.names:
        name = f"{module}.{dotted_name(alias.name)}" if module else f"{dotted_name(alias.name)}"
        new = new_name(rule, name)
        if new is not None:
            yield _member(source, statement, alias, name, new)


def _module(source: Source, node: cst.Name | cst.Attribute, old: str, new: str, *, is_relative: bool) -> Draft:
    draft = Draft(source.span(node), f"from {source.code(node)} import")
    if not is_relative:
        draft.replacements.append(Replacement(*source.span(node), new))
        return draft
    written = source.code(node)
    package = old.removesuffix(written)
    if not old.endswith(written) or not new.startswith(package):
        return draft.refused("the import is relative, and the new module lies in another package")
    draft.replacements.append(Replacement(*source.span(node), new[len(package) :]))
    return draft


def _member(source: Source, statement: cst.ImportFrom, alias: cst.ImportAlias, old: str, new: str) -> Draft:
    draft = Draft(source.span(alias), f"import {source.code(alias.name)}")
    old_module, _, old_last = old.rpartition(".")
    new_module, _, new_last = new.rpartition(".")
    bound = alias.evaluated_alias or old_last
    text = new_last if new_last == bound else f"{new_last} as {bound}"
    if new_module == old_module:
        draft.replacements.append(Replacement(*source.span(alias.name), new_last if alias.asname else text))
    elif not new_module:
        draft.refused("a module of its own cannot be imported from another")
    elif len(statement.names) == 1 and statement.module is not None and not statement.relative:  # type: ignore[arg-type]  # a star has no aliases
        draft.replacements.append(Replacement(*source.span(statement.module), new_module))
        draft.replacements.append(Replacement(*source.span(alias.name), new_last if alias.asname else text))
    else:
        _split(source, statement, alias, f"from {new_module} import {text}", draft)
    return draft


def _split(source: Source, statement: cst.ImportFrom, alias: cst.ImportAlias, new: str, draft: Draft) -> None:
    """Take one name out of a from-import, and import it by a statement of its own before it."""
    assert not isinstance(statement.names, cst.ImportStar)
    if len(statement.names) == 1:
        draft.replacements.append(Replacement(*source.span(statement), new))
        return
    deletion = next(without_items(source, statement.names, [alias]))
    if "#" in source.text.text[deletion.start : deletion.end]:
        draft.refused("a comment stands beside it")
        return
    first = source.span(statement)[0]
    line = source.text.text[source.text.line_start(first) : first]
    glue = f"{source.text.newline}{line}" if not line.strip() else "; "
    draft.replacements += [Replacement(first, first, f"{new}{glue}"), deletion]
