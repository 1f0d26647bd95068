"""Which operators and public APIs an Ascend NPU supports, for a SoC and a torch_npu version. Imports no torch."""

from __future__ import annotations

import functools

from jumar.soc.profiles import SocProfile, get_soc
from jumar.soc.support.apis import ApiStatus, ApiSupport, ApiTables
from jumar.soc.support.data import table
from jumar.soc.support.operators import RANK, OperatorStatus, OperatorSupport, OperatorTables
from jumar.soc.support.releases import OF_TABLES, Release, checked, chosen, covered, releases

__all__ = [
    "RANK",
    "ApiStatus",
    "ApiSupport",
    "OperatorStatus",
    "OperatorSupport",
    "Release",
    "SupportTables",
    "chosen",
    "known_versions",
    "releases",
]


def known_versions() -> tuple[str, ...]:
    """Return the PyTorch versions that the vendor's list covers, oldest first: `2.7`, …, `2.13`.

    Of the other releases only the names and the kernels are known.
    """
    return tuple(table("npu_apis")["versions"])


class SupportTables:
    """The tables for one SoC and one version of PyTorch (and of the torch_npu of the same number)."""

    def __init__(self, soc: SocProfile, torch_version: str) -> None:
        self.soc = soc
        self.torch_version = torch_version
        self._operators = OperatorTables(soc, int(covered(torch_version).split(".")[1]))
        self._apis = ApiTables(soc, torch_version, self._operators)

    @classmethod
    def load(cls, soc: str, torch_version: str = OF_TABLES) -> SupportTables:
        """Return the tables for a SoC's name and a version such as `2.13`, `2.13.0` or `2.13.0+cpu`.

        Raises DeviceError for an unknown SoC or a version that the tables do not cover.
        """
        return _load(get_soc(soc), checked(torch_version))

    def operator(self, name: str) -> OperatorSupport:
        """Return what the operator `name` (`aten::add.Tensor`) does; the rule is in `support.operators`."""
        return self._operators.support(name)

    def api(self, name: str) -> ApiSupport:
        """Return what is known of the public API `name` (`torch.nn.Linear`); the rule is in `support.apis`."""
        return self._apis.support(name)


@functools.lru_cache(maxsize=8)
def _load(soc: SocProfile, version: str) -> SupportTables:
    return SupportTables(soc, version)
