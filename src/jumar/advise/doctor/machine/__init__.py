"""This machine as plain values (`Host`), and the rules over it (`examine`)."""

from __future__ import annotations

from jumar.advise.doctor.machine.examination import Examination, examine
from jumar.advise.doctor.machine.host import Host
from jumar.advise.doctor.machine.survey import survey

__all__ = ["Examination", "Host", "examine", "survey"]
