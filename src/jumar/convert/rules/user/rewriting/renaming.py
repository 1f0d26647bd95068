"""Renames at the places where a name is used."""

from __future__ import annotations

from typing import cast

import libcst as cst

from jumar.convert.model.edits import Replacement
from jumar.convert.rules.user.rewriting.draft import Draft
from jumar.convert.rules.user.rewriting.places import Place, absolute
from jumar.convert.syntax.receivers import Receivers
from jumar.convert.syntax.source import Reference, Source
from jumar.convert.user_rules.model import UserRule
from jumar.convert.user_rules.patterns import renamed


def rename(source: Source, rule: UserRule, place: Place, draft: Draft) -> None:
    """Add to `draft` what gives the place its new name; nothing where the import statement does."""
    assert rule.rename is not None
    if place.reference is None:
        _rename_attribute(source, rule.rename.rpartition(".")[2], place, draft)
        return
    new = renamed(place.pattern, place.name, rule.rename)
    if place.index:
        _rename_chain(source, place.reference, place.index, new, draft)
    elif place.name.startswith("builtins."):
        _replace(source, place.reference.chain[0], place.reference.chain[0], new, draft)


def _rename_attribute(source: Source, new: str, place: Place, draft: Draft) -> None:
    if isinstance(place.node, cst.Name):
        bound = source.scope(place.node).bindings_of(place.name)
        if bound:
            draft.refused("this file defines it itself, so that its definition would have to be renamed, too")
            return
        draft.replacements.append(Replacement(*source.span(place.node), new))
        return
    receivers = Receivers(source, place.name)
    owner = receivers.classify(place.node.value) if receivers.has_own else "unknown"
    if owner == "own":
        draft.refused("a class of this file defines it, so that its definition would have to be renamed, too")
        return
    if receivers.has_own and owner == "unknown":
        draft.risky = "a class of this file has a method or attribute of that name"
    draft.replacements.append(Replacement(*source.span(place.node.attr), new))


def _rename_chain(source: Source, reference: Reference, index: int, new: str, draft: Draft) -> None:
    """Rename `chain[index]`: its own tokens where the chain leads to the new name, else the chain up to it."""
    names = [absolute(source.path, name) for name in reference.names]
    shared = max((at for at in range(index) if f"{new}.".startswith(f"{names[at]}.")), default=None)
    if shared is None or names[shared] == new:
        _replace(source, reference.chain[0], reference.chain[index], new, draft)
        return
    rest = new[len(names[shared]) + 1 :].split(".")
    tokens = [cast("cst.Attribute", node).attr for node in reference.chain[shared + 1 : index + 1]]
    if len(rest) == len(tokens):
        draft.replacements += [
            Replacement(*source.span(token), text)
            for token, text in zip(tokens, rest, strict=True)
            if token.value != text
        ]
        return
    start = source.outer_span(reference.chain[shared])[1]
    _put(source, start, source.span(reference.chain[index])[1], f".{'.'.join(rest)}", draft)


def _replace(source: Source, first: cst.CSTNode, last: cst.CSTNode, new: str, draft: Draft) -> None:
    """Write a whole new name, whose module is imported at the top."""
    module, _, _ = new.rpartition(".")
    root = new.partition(".")[0]
    scope = source.scope(first)
    if scope.bindings_of(root) and scope.candidates(root) != (root,):
        draft.refused(f"`{root}` has another meaning here")
        return
    if module:
        draft.requires.append(f"import {module}")
    _put(source, source.span(first)[0], source.span(last)[1], new, draft)


def _put(source: Source, start: int, end: int, text: str, draft: Draft) -> None:
    if "#" in source.text.text[start:end]:
        draft.risky = "a comment inside the name would go"
    draft.replacements.append(Replacement(start, end, text))
