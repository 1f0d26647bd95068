"""`DoctorEntriesContract`: what entries of `jumar doctor` promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jumar.advise.doctor.entries import Signature, parse_entries
from jumar.advise.doctor.entries.check import check_entries
from jumar.advise.doctor.entries.installed import INSTALLED, built_in
from jumar.advise.doctor.entries.own import completed
from jumar.advise.doctor.logs import diagnose_logs


class DoctorEntriesContract:
    """A document with `sources` and `errors`. Set `entries`, and lines of good runs.

    class TestMyEntries(DoctorEntriesContract):
        entries = acme.errors.ENTRIES
        ordinary = ("acme: 0 jobs failed",)
    """

    entries: Mapping[str, Any]
    ordinary: Sequence[str] = ()
    """Lines that no entry may recognise; many others are tried as well."""

    def signatures(self) -> tuple[Signature, ...]:
        """Return the entries. ValueError names the rule of the format that one breaks."""
        return parse_entries(completed(dict(self.entries), "an entry of another distribution"))

    def test_it_has_entries_in_the_form_of_jumars_own(self) -> None:
        """Fields, kinds, roles and patterns are those of the format."""
        assert self.signatures()

    def test_each_entry_recognises_its_example_quickly_and_no_ordinary_line(self) -> None:
        """What `jumar doctor --test-entries` checks."""
        faults = check_entries((*self.signatures(), *built_in()), ordinary=self.ordinary)
        own = {signature.name for signature in self.signatures()}
        assert [fault for fault in faults if fault.entry in own] == []

    def test_each_entry_is_written_in_sentences(self) -> None:
        """A title is a heading; a cause is a sentence."""
        for signature in self.signatures():
            assert not signature.title.endswith("."), signature.name
            assert signature.cause.endswith("."), signature.name
            assert len(signature.action) > len("Wait."), signature.name

    def test_the_doctor_names_the_entry_for_its_example(self, tmp_path: Path) -> None:
        """As if its distribution were installed."""
        with INSTALLED.holding(self.signatures()):
            for signature in self.signatures():
                log = tmp_path / "run.log"
                log.write_text(f"{signature.example}\n", "utf-8")
                hits = diagnose_logs([log]).files[0].hits
                assert signature.name in {hit.signature.name for hit in hits if hit.signature}
