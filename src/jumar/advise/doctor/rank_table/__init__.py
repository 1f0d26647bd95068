"""Rank tables of HCCL: `faults_of` names every rule that one breaks."""

from __future__ import annotations

from jumar.advise.doctor.rank_table.check import faults_of
from jumar.advise.doctor.rank_table.fault import Fault
from jumar.advise.doctor.rank_table.read import is_rank_table, read_table

__all__ = ["Fault", "faults_of", "is_rank_table", "read_table"]
