"""The pictures of a profile's page, made from a timeline."""

from __future__ import annotations

from jumar.show.pages.profile.ranks import ranks_section
from jumar.show.pages.profile.sections import profile_sections

__all__ = ["profile_sections", "ranks_section"]
