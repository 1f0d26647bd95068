"""What `jumar doctor --bundle` prints: what is in the archive, what was masked, and what was left out."""

from __future__ import annotations

from jumar.advise.doctor.bundle import Bundle
from jumar.base.text import counted, size_text
from jumar.show.blocks.page import Action, Column, KeyValues, Page, Section, Table, Text, Verdict


def bundle_page(bundle: Bundle) -> Page:
    """Return the page of an archive that was written."""
    number = sum(bundle.masked.values())
    headline = f"{bundle.path} holds {counted(len(bundle.contents), 'file')}, {size_text(bundle.size_bytes)}."
    details = [f"{counted(number, 'place')} masked. Masking finds what it knows; what it does not know stays."]
    columns = [
        *(Column(title="File", code=True), Column(title="What"), Column(title="Size")),
        *(Column(title="Lines", number=True), Column(title="Left out", number=True)),
    ]
    rows = [
        (one.name, one.what, size_text(one.size_bytes), one.num_lines, one.left_out_lines) for one in bundle.contents
    ]
    masked = [(kind, str(count)) for kind, count in sorted(bundle.masked.items()) if count]
    sections = [
        Section(title="Masked", blocks=[KeyValues(items=masked) if masked else Text(text="Nothing.")]),
        Section(title="In the archive", blocks=[Table(columns=columns, rows=rows)]),
    ]
    if bundle.notes:
        sections.append(Section(title="Left out", blocks=[Text(text=note) for note in bundle.notes]))
    look = Action(title="Look through the archive before you send it.", detail="Nothing was sent anywhere.")
    return Page(
        title="Report of an error",
        verdict=Verdict(status="fine", headline=headline, details=details),
        actions=[look],
        sections=sections,
    )
