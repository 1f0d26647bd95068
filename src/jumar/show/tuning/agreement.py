"""Pages of two knowledge banks, or a bank and a command, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jumar.base.text import counted
from jumar.show.blocks.findings import finding_list
from jumar.show.blocks.page import Action, Block, Listing, Page, Section, Text, Verdict

if TYPE_CHECKING:
    from jumar.base.findings import Finding
    from jumar.tfadapter.source import CommandLine
    from jumar.tune.bank.agreement import BanksApart, ShapesApart


def banks_page(found: BanksApart, findings: Sequence[Finding], words: Sequence[str]) -> Page:
    """Return the page of two banks."""
    counts = (
        f"{counted(found.num_first, 'work')} in the first, {found.num_second} in the second, {found.num_both} in both. "
        f"{found.num_only_first} of the first have nothing like them in the second."
    )
    details = [counts, "A bank does not hold its options: they are named by what differs in shapes, dtypes and graphs."]
    if found.machines_apart:
        details.append("No machine is in both banks; that alone is a miss, whatever the options.")
    nothing = "Nothing that both know differs in shape, dtype or structure."
    return Page(
        title=f"{words[0]} and {words[1]}",
        verdict=Verdict(
            status="attention" if findings or found.machines_apart or found.num_only_first else "fine",
            headline=findings[0].message if findings else nothing,
            details=details,
        ),
        actions=_actions(findings),
        sections=[Section(title="Findings", blocks=[finding_list(findings, empty="None.")])],
    )


def _actions(findings: Sequence[Finding]) -> list[Action]:
    return [Action(title=one.action, detail=one.message, command=f"jumar rule {one.code}") for one in findings]


def shapes_page(
    found: ShapesApart, findings: Sequence[Finding], names: Sequence[str], command: CommandLine, bank: str,
    corrected: str | None, untold: Sequence[str],
) -> Page:  # fmt: skip
    """Return the page of a bank and a command; `untold` are the command's options that a bank tells nothing of."""
    what = (
        counted(found.num_graphs, "graph")
        if found.num_graphs
        else f"the operators of {counted(found.num_works, 'work')}"
    )
    details = [
        f"{counted(len(found.gears), 'set')} of shapes of {counted(len(names), 'input')} looked for in {what}; "
        f"{len(found.missing)} not there."
    ]
    if untold:
        details.append(f"Not compared, because a bank does not tell it: {', '.join(untold)}.")
    blocks: list[Block] = [finding_list(findings, empty="None.")]
    if corrected is not None:
        blocks.append(Listing(title="The command with shapes that the bank has", text=corrected))
    elif findings:
        blocks.append(Text(text="The bank has no graph with as many inputs of as many axes: tune with these shapes."))
    return Page(
        title=f"{bank} and {command.program or 'options'}",
        verdict=Verdict(
            status="attention" if findings else "fine",
            headline=findings[0].message if findings else "The bank has each of the shapes that the command asks for.",
            details=details,
        ),
        actions=_actions(findings),
        sections=[Section(title="Findings", blocks=blocks)],
    )
