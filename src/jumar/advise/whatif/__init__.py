"""What a step would take if something were otherwise: the timeline is replayed with other lengths."""

from __future__ import annotations

from jumar.advise.whatif.ask import Answer, ask

__all__ = ["Answer", "ask"]
