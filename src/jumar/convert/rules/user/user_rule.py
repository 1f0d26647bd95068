"""## What it does
Applies the rules of the file given with `-r`: new names for functions, methods, attributes and modules,
arguments that are set, added, removed, renamed or put in another order, texts replaced in an argument,
names that are kept as they are, and messages. Each finding names the rule it comes from.

## Why it matters
A code base has wrappers of its own around CUDA that no built-in rule can know. User rules run before
the built-in ones, which leave what a user rule has changed or kept.

## Example
```python
from ours import gpu

batch = gpu.load(path, pin=True)  # rule: match "ours.gpu.load", rename "ours.npu.load", remove "pin"
```

## Use instead
```python
from ours import gpu
import ours.npu

batch = ours.npu.load(path)
```

## Fix safety
As the rule says, safe by default. An edit is unsafe whatever the rule says where it would drop or move
an expression that may do something, or drop a comment. Where it is not clear what is meant (a name with
two definitions, an argument that may be inside `*args`) nothing is changed, and the finding says why.

## References
- `jumar docs guide-convert`, "Rules of your own"
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.user.rewriting.calls import change_call
from jumar.convert.rules.user.rewriting.draft import Draft
from jumar.convert.rules.user.rewriting.imports import renamed_imports
from jumar.convert.rules.user.rewriting.places import Place, places
from jumar.convert.rules.user.rewriting.renaming import rename
from jumar.convert.user_rules.model import UserRule
from jumar.convert.user_rules.together import in_order

RULE = Rule(
    code="JM195",
    name="user-rule",
    summary="A rule of the file given with -r applies.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose what each user rule asks for, in the order of their file."""
    for rule in context.options.user_rules.rules:
        if rule.target in (None, context.options.target):
            yield from _check(context, rule)


def _check(context: Context, rule: UserRule) -> Iterator[Proposal]:
    imports = list(renamed_imports(context.source, rule))
    uses = [(place, _draft(context, rule, place)) for place in places(context.source, rule)]
    if rule.rename is not None and rule.changes:
        bound = [draft for place, draft in uses if place.reference is not None and not place.index]
        _together(context, rule, [*imports, *bound])
    yield from (_proposal(rule, draft) for draft in (*imports, *(draft for _, draft in uses)) if not draft.is_empty)


def _together(context: Context, rule: UserRule, drafts: list[Draft]) -> None:
    """Leave an import and the calls of what it brings in when one is left: the new name takes other arguments."""
    makes_unsafe = context.options.makes(RULE, "unsafe")
    if any(draft.reason or (draft.risky and rule.safety == "safe" and not makes_unsafe) for draft in drafts):
        for draft in drafts:
            if not draft.risky:
                draft.refused("another place in this file that must change with it cannot be changed")


def _draft(context: Context, rule: UserRule, place: Place) -> Draft:
    """Return what the rule does at a place, empty where it has nothing to do there."""
    span = context.source.span(place.node)
    if not rule.edits:
        # A message claims no characters, so that the built-in rules still convert the place.
        return Draft(span if rule.keep else (span[0], span[0]), place.code, notes_only=True)
    draft = Draft(span, place.code)
    if not place.certain:
        return draft.refused("its name has rival definitions")
    call = place.call if place.is_whole else None
    if rule.rename is not None and rule.changes and call is None:
        return draft.refused("it is not called here, so that its arguments cannot be changed")
    if rule.rename is not None:
        rename(context.source, rule, place, draft)
    if call is not None:
        for change in in_order(rule.changes):
            change_call(context.source, call, change, draft)
    if rule.requires:
        draft.requires = list(rule.requires)
    return draft


def _proposal(rule: UserRule, draft: Draft) -> Proposal:
    proposal = Proposal(
        rule=RULE,
        span=draft.span,
        message=_message(rule, draft),
        severity=rule.severity,
        action=rule.action,
        why=rule.why,
        evidence={"rule": rule.name},
    )
    if draft.reason:
        return replace(proposal, severity=rule.severity or Severity.WARNING, action=rule.action or "Change it by hand.")
    if draft.notes_only:
        return replace(proposal, severity=rule.severity or (Severity.INFO if rule.keep else Severity.WARNING))
    risky = draft.risky and rule.safety == "safe"
    return replace(
        proposal,
        replacements=tuple(dict.fromkeys(draft.replacements)),
        requires=tuple(dict.fromkeys(draft.requires)),
        safety="unsafe" if risky else rule.safety,
    )


def _message(rule: UserRule, draft: Draft) -> str:
    if draft.reason:
        return f"`{draft.code}` is meant by the rule {rule.name}, and was left: {draft.reason}."
    if rule.message:
        return rule.message
    if rule.keep:
        return f"`{draft.code}` is kept by the rule {rule.name}."
    risk = f"; {draft.risky}" if draft.risky else ""
    return f"The rule {rule.name} changes `{draft.code}`{risk}."
