"""Operator tuning: a recording in; policies measured faster on this machine, kept in a bank that never slips back.

tasks → candidates → measured gate → knowledge bank → result file
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader

if TYPE_CHECKING:
    from jumar.tune.bank.location import bank_place
    from jumar.tune.bank.store import Bank
    from jumar.tune.job.tuner import tune
    from jumar.tune.measure.options import TuneOptions
    from jumar.tune.model.errors import BankError, TuneError
    from jumar.tune.model.machine import Machine, this_machine
    from jumar.tune.search.outcome import TuneResult

__all__ = [
    "Bank",
    "BankError",
    "Machine",
    "TuneError",
    "TuneOptions",
    "TuneResult",
    "bank_place",
    "this_machine",
    "tune",
]

_HOME = {
    "Bank": "jumar.tune.bank.store",
    "BankError": "jumar.tune.model.errors",
    "Machine": "jumar.tune.model.machine",
    "TuneError": "jumar.tune.model.errors",
    "TuneOptions": "jumar.tune.measure.options",
    "TuneResult": "jumar.tune.search.outcome",
    "bank_place": "jumar.tune.bank.location",
    "this_machine": "jumar.tune.model.machine",
    "tune": "jumar.tune.job.tuner",
}

__getattr__ = loader(__name__, __all__, _HOME)
__dir__ = directory(__name__, __all__)
