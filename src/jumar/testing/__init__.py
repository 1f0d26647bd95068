"""For test suites: a pytest plugin that gives tests an NPU, and the contracts that parts of Jumar keep.

Installing Jumar registers the plugin; `jumar docs guide-testing` shows its use. A contract is a class of tests. A suite
derives from it, sets what it tests, and pytest runs the tests:

    from jumar.testing import EngineContract

    class TestMyEngine(EngineContract):
        engine = MyEngine()

`CONTRIBUTING.md` has a recipe for each kind of part, and `python -m jumar.testing.scaffold` writes a first version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader

if TYPE_CHECKING:
    from jumar.testing.contracts.doctor_check import DoctorCheckContract
    from jumar.testing.contracts.doctor_entries import DoctorEntriesContract
    from jumar.testing.contracts.dump_format import DumpFormatContract
    from jumar.testing.contracts.engine import EngineContract
    from jumar.testing.contracts.export_format import ExportFormatContract
    from jumar.testing.contracts.npu_operator import NpuOperatorContract
    from jumar.testing.contracts.rule import ConversionRuleContract, RoomRuleContract, RuleContract
    from jumar.testing.contracts.soc_profile import SocProfileContract

_HOME = {
    "ConversionRuleContract": "jumar.testing.contracts.rule",
    "DoctorCheckContract": "jumar.testing.contracts.doctor_check",
    "DoctorEntriesContract": "jumar.testing.contracts.doctor_entries",
    "DumpFormatContract": "jumar.testing.contracts.dump_format",
    "EngineContract": "jumar.testing.contracts.engine",
    "ExportFormatContract": "jumar.testing.contracts.export_format",
    "NpuOperatorContract": "jumar.testing.contracts.npu_operator",
    "RoomRuleContract": "jumar.testing.contracts.rule",
    "RuleContract": "jumar.testing.contracts.rule",
    "SocProfileContract": "jumar.testing.contracts.soc_profile",
}

__all__ = [
    "ConversionRuleContract",
    "DoctorCheckContract",
    "DoctorEntriesContract",
    "DumpFormatContract",
    "EngineContract",
    "ExportFormatContract",
    "NpuOperatorContract",
    "RoomRuleContract",
    "RuleContract",
    "SocProfileContract",
]

__getattr__ = loader(__name__, __all__, _HOME)
__dir__ = directory(__name__, __all__)
