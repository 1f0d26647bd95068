"""What happened when: the events of a run, from any profiler, as one value that every analysis takes."""

from __future__ import annotations
