"""What `jumar doctor --fix` prints: the changes, what is left to a person, and what became of them."""

from __future__ import annotations

from jumar.advise.doctor.fixes import Made, Proposal
from jumar.base.text import counted
from jumar.show.blocks.page import Column, Listing, Page, Section, Status, Table, Text, Verdict


def changes_page(proposal: Proposal, *, is_root: bool) -> Page:
    """Return the page of what can be changed, before anything is."""
    number = len(proposal.changes)
    headline = (
        f"{counted(number, 'change')} can be made and undone."
        if number
        else "There is nothing that can be changed here."
    )
    sections = []
    for change in proposal.changes:
        lines = list(change.lines())
        if change.needs_root and not is_root:
            lines.append("# needs root")
        sections.append(Section(title=f"{change.title} ({change.code})", blocks=[Listing(text="\n".join(lines))]))
    if proposal.refusals:
        columns = [
            Column(title="Code", code=True),
            Column(title="What"),
            Column(title="Why not"),
            Column(title="To do"),
        ]
        rows = [(one.code, one.message, one.reason, one.action) for one in proposal.refusals]
        sections.append(Section(title="Left to you", blocks=[Table(columns=columns, rows=rows)]))
    return Page(
        title="Changes",
        verdict=Verdict(status="attention" if proposal.changes or proposal.refusals else "fine", headline=headline),
        actions=[],
        sections=sections,
    )


def made_page(made: Made, *, num_left: int) -> Page:
    """Return the page of what was changed."""
    parts = [f"{counted(len(made.made), 'change')} made"]
    parts += [f"{len(made.failed)} failed"] if made.failed else []
    parts += [f"{num_left} left out"] if num_left else []
    sections = []
    if made.failed:
        rows = [(change.title, why) for change, why in made.failed]
        columns = [Column(title="Change"), Column(title="Why it failed")]
        sections.append(Section(title="Failed", blocks=[Table(columns=columns, rows=rows)]))
    if made.undo is not None:
        sections.append(Section(title="To undo", blocks=[Text(text=f"sh {made.undo}")]))
    status: Status = "failed" if made.failed else "attention" if num_left else "fine"
    headline = ", ".join(parts) + "."
    return Page(title="Changes", verdict=Verdict(status=status, headline=headline), actions=[], sections=sections)
