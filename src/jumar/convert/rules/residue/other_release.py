"""## What it does
Finds names of torch_npu that the chosen release does not have though another one does, and calls with arguments that
it does not take. The finding names the releases that have the name, and what to use in its place.

## Why it matters
A name of another release is an AttributeError, an argument of another release a TypeError, where the line runs.

## Example
```python
pool = torch.npu.MemPoolContext(torch.npu.MemPool())  # torch_npu 2.1 to 2.12
```

## Use instead
```python
with torch.npu.use_mem_pool(torch.npu.MemPool()):
```

## Fix safety
No edit is made: what stands for the name is written another way.

## References
- Ascend/pytorch, `test/torch_npu_schema.json` at the end of each release's branch; wheels of torch_npu 2.13 and 2.14
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.places import distinct
from jumar.convert.syntax.source import Reference, Source
from jumar.soc.support.releases import canonical, instead, lacks, overloads_in, signature_in, spans_of

RULE = Rule(
    code="JM198",
    name="name-of-another-release",
    summary="A name or an argument of torch_npu is not in the chosen release.",
    severity=Severity.ERROR,
    doc=__doc__,
)


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """A call of a name of torch_npu whose signature is another one in other releases."""

    name: str
    where: Location
    node: cst.CSTNode
    complaint: str
    """Why the release does not take it: `it takes no argument by the name `stream``."""


def find(context: Context) -> Iterator[Proposal]:
    """Report names and calls that the chosen release does not have or take."""
    source, release = context.source, context.options.release
    for reference in distinct(missing_names(source, release)):
        span = source.span(reference.node)
        if not context.covered(span):
            yield Proposal(
                rule=RULE, span=span, message=f"`{reference.name}` {missing(reference.name, release)}.",
                action=instead(reference.name), evidence={"releases": spans_of(reference.name)},
            )  # fmt: skip
    for call in refused_calls(source, release):
        yield Proposal(
            rule=RULE, span=source.span(call.node),
            message=f"torch_npu {release} does not take this call of `{call.name}`: {call.complaint}.",
            action="Leave that argument out, or choose a release that takes it with --torch-version.",
        )  # fmt: skip


def missing(name: str, release: str) -> str:
    """Return the end of a sentence about a name that a release lacks."""
    return f"does not exist in torch_npu {release} (it is in {spans_of(name)})"


def missing_names(source: Source, release: str) -> Iterator[Reference]:
    """Yield the uses of names of torch_npu that another release has and this one does not."""
    for reference in source.references:
        if reference.certain and _is_of_npu(reference.name) and lacks(reference.name, release):
            yield reference


def refused_calls(source: Source, release: str) -> Iterator[RefusedCall]:
    """Yield the calls of torch_npu whose arguments the release does not take though another one may."""
    for reference in source.references:
        if reference.call is None or not reference.certain or not _is_of_npu(reference.name):
            continue
        complaint = complaint_of(reference.name, reference.call, release)
        if complaint:
            yield RefusedCall(reference.name, source.location(reference.node), reference.node, complaint)


def complaint_of(name: str, call: cst.Call, release: str) -> str:
    """Return why a release does not take the arguments of a call; "" where it does, or no table of releases tells."""
    name = canonical(name)
    from jumar.convert.model.signatures import read_schema, read_signature  # few files have such a call

    overloads = [read_schema(text) for text in overloads_in(name.removeprefix("torch_npu."), release)]
    text = signature_in(name, release)
    known = [*overloads, *([read_signature(text, method=text.startswith("(self,"))] if text else [])]
    complaints = [signature.complaint(call) for signature in known]
    return next((found for found in complaints if found), "") if all(complaints) else ""


def _is_of_npu(name: str) -> bool:
    return name.startswith(("torch_npu.", "torch.npu."))
