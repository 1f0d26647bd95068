"""What `jumar doctor --explain`, `--test-entries` and `--learn` print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.base.text import counted
from jumar.show.blocks.page import Action, Column, KeyValues, Listing, Page, Section, Table, Verdict

if TYPE_CHECKING:
    from jumar.advise.doctor.entries.check import EntryFault
    from jumar.advise.doctor.entries.explain import Answer, Explained
    from jumar.advise.doctor.entries.learn import Proposal

_MOST_SHOWN = 8


def explain_page(answer: Answer) -> Page:
    """Return the page of what a code, a name or a line means."""
    shown = answer.entries[:_MOST_SHOWN]
    if not shown:
        return _unknown_page(answer)
    first = shown[0].signature
    details = [first.cause]
    if answer.read_as:
        details.append(f"Read as {answer.read_as}.")
    if len(answer.entries) > 1:
        details.append(f"{counted(len(answer.entries), 'entry', 'entries')} fit; the first is the one that counts.")
    return Page(
        title=f"What {_short(answer.text)} means",
        verdict=Verdict(status="attention", headline=f"{first.title}.", details=details),
        actions=[Action(title=first.action)],
        sections=[_entry_section(one, answer.name) for one in shown],
    )


def _unknown_page(answer: Answer) -> Page:
    details = []
    if answer.name:
        details.append(f"The vendor calls it {answer.name}.")
    if answer.near:
        details.append(f"Near names: {', '.join(answer.near)}.")
    return Page(
        title=f"What {_short(answer.text)} means",
        verdict=Verdict(status="attention", headline=f"No entry fits {_short(answer.text)}.", details=details),
        actions=[
            Action(title="Search the vendor's error reference for it, and read the lines around it in the log."),
            Action(title="Make an entry of your own from a log with it.", command="jumar doctor --learn LOG"),
        ],
        sections=[],
    )


def _entry_section(one: Explained, name: str) -> Section:
    signature = one.signature
    items = [
        ("Code", one.code + (f" ({name})" if name and one.code.isdigit() else "")),
        ("Kind", f"{signature.kind}, {signature.role}, {signature.severity.label}"),
        ("Cause", signature.cause),
        ("Action", signature.action),
        ("Source", signature.source),
        ("Example", signature.example),
    ]
    return Section(title=signature.name, blocks=[KeyValues(items=[(key, value) for key, value in items if value])])


def check_page(num_checked: int, faults: Sequence[EntryFault], notes: Sequence[str]) -> Page:
    """Return the page of the checked entries: a table of what is wrong."""
    checked = f"{counted(num_checked, 'entry', 'entries')} checked."
    if not faults:
        verdict = Verdict(
            status="fine",
            headline="Each entry recognises its example, and no ordinary line.",
            details=[checked, *notes],
        )
        return Page(title="Entries", verdict=verdict, actions=[], sections=[])
    columns = [Column(title="Entry", code=True), Column(title="Rule that it breaks"), Column(title="Here")]
    rows = [(fault.entry, fault.rule, fault.detail) for fault in faults]
    number = len({fault.entry for fault in faults})
    return Page(
        title="Entries",
        verdict=Verdict(
            status="failed",
            headline=f"{counted(number, 'entry', 'entries')} must be mended.",
            details=[checked, *notes],
        ),
        actions=[],
        sections=[Section(title="What is wrong", blocks=[Table(columns=columns, rows=rows)])],
    )


def learned_page(proposal: Proposal, where: str, written: Path | None) -> Page:
    """Return the page of a proposed entry; `where` is the line that it was made from."""
    if written is not None:
        headline = f"An entry was written to {written}."
        actions = [
            Action(title="Fill in title, cause and action in it."),
            Action(title="Check it.", command="jumar doctor --test-entries --entries DIR"),
        ]
    else:
        headline = "An entry is proposed; nothing was written."
        actions = [
            Action(
                title="Save it as a .toml file in ~/.config/jumar/doctor, or let Jumar write it.",
                command="jumar doctor --learn LOG --entries DIR",
            ),
            Action(title="Fill in title, cause and action. Then check it.", command="jumar doctor --test-entries"),
        ]
    return Page(
        title="A new entry",
        verdict=Verdict(status="fine", headline=headline, details=[f"Made from {where}."]),
        actions=actions,
        sections=[Section(title="Entry", blocks=[Listing(text=proposal.to_toml())])],
    )


def _short(text: str) -> str:
    line = text.splitlines()[0] if text else ""
    return line if len(line) <= 60 else line[:59] + "…"
