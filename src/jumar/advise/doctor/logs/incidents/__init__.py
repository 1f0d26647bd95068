"""Incidents: errors that belong together, which of them leads, and what is said of them."""

from __future__ import annotations

from jumar.advise.doctor.logs.incidents.grouping import groups_of, lead_of
from jumar.advise.doctor.logs.incidents.telling import finding_of

__all__ = ["finding_of", "groups_of", "lead_of"]
