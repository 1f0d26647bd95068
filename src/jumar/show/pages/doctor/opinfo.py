"""What `jumar doctor opinfo` prints: operators, conversions, and what was compiled after the first step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jumar.base.text import counted, listing, number_text
from jumar.show.blocks.page import Action, Column, Page, Section, Table, Text, Verdict

if TYPE_CHECKING:
    from jumar.advise.doctor.opinfo import Gathered, OperatorType

CONVERSIONS = ("TransData", "Cast")
_MOST_TYPES = 40
_MOST_VARIANTS = 12
_LONGEST = 110


def opinfo_page(gathered: Gathered) -> Page:
    """Return the page of the operators of plogs."""
    calls = counted(gathered.num_calls, "call")
    headline = f"{calls} of {counted(len(gathered.types), 'operator type')} in {counted(len(gathered.files), 'file')}."
    later = sum(one.num_compiled for one in gathered.later)
    details = [_share(gathered, name) for name in CONVERSIONS]
    if later:
        details.append(f"{counted(later, 'operator call')} compiled {_when(gathered)}.")
    return Page(
        title="OP_INFO",
        verdict=Verdict(status="attention" if later else "fine", headline=headline, details=details),
        actions=list(_actions(gathered)),
        sections=list(_sections(gathered)),
    )


def _sections(gathered: Gathered) -> Iterator[Section]:
    if gathered.later:
        columns = [Column(title="Operator", code=True), Column(title="Compiled", number=True), Column(title="Changed")]
        rows = [(one.type, one.num_compiled, "; ".join(one.changes)) for one in gathered.later[:_MOST_TYPES]]
        yield Section(title=f"Compiled {_when(gathered)}", blocks=[Table(columns=columns, rows=rows)])
    yield Section(title="Operators", blocks=[_types(gathered.types)])
    for name in CONVERSIONS:
        found = next((one for one in gathered.types if one.name == name), None)
        if found is not None:
            yield Section(title=name, blocks=[_variants(found)])
    if gathered.notes:
        yield Section(title="Notes", blocks=[Text(text=" ".join(gathered.notes))])


def _types(types: Sequence[OperatorType]) -> Table:
    columns = [
        Column(title="Operator", code=True), Column(title="Calls", number=True), Column(title="Variants", number=True),
        Column(title="Compiled", number=True), Column(title="Dtypes"), Column(title="Formats"),
        Column(title="Most frequent"),
    ]  # fmt: skip
    rows = [
        (
            one.name, one.num_calls, len(one.variants), one.num_compiled, listing(one.dtypes, 3),
            listing(one.formats, 3), _described(one) if one.variants else "",
        )
        for one in sorted(types, key=lambda one: -one.num_calls)[:_MOST_TYPES]
    ]  # fmt: skip
    return Table(columns=columns, rows=rows)


def _described(one: OperatorType) -> str:
    description = one.most_frequent[0].description
    tensors = ", ".join(str(tensor) for tensor in description.tensors if tensor.name.startswith("input"))
    return _short(f"{tensors} {description.attributes}".strip())


def _variants(one: OperatorType) -> Table:
    columns = [Column(title="Calls", number=True), Column(title="From"), Column(title="To"), Column(title="Attributes")]
    rows = []
    for variant in one.most_frequent[:_MOST_VARIANTS]:
        tensors = variant.description.tensors
        sides = [
            _short(", ".join(str(tensor) for tensor in tensors if tensor.name.startswith(side)))
            for side in ("input", "output")
        ]
        rows.append((variant.count, sides[0], sides[1], _short(variant.description.attributes)))
    return Table(columns=columns, rows=rows)


def _actions(gathered: Gathered) -> Iterator[Action]:
    if gathered.later:
        yield Action(
            title="Use fixed shapes where an operator is compiled again: pad, or sort batches by length.",
            detail=listing([one.type for one in gathered.later], 5),
        )
    if gathered.calls_of("TransData"):
        yield Action(
            title="Look at the conversions of format: give weights the format of their operator once "
            "(torch_npu.npu_format_cast), and keep views such as permute out of loops."
        )


def _share(gathered: Gathered, name: str) -> str:
    number = gathered.calls_of(name)
    return f"{name}: {counted(number, 'call')}, {number_text(100 * number / gathered.num_calls, 3)} % of all."


def _when(gathered: Gathered) -> str:
    if gathered.num_steps_known == gathered.num_processes:
        return "after the first step"
    return "again" if gathered.num_steps_known == 0 else "after the first step, or again"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
