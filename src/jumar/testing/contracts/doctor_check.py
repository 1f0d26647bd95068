"""`DoctorCheckContract`: what a check of `jumar doctor` promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jumar.advise.checks import NotChecked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Finding
from jumar.base.rules import RuleModule
from jumar.testing.contracts.hosts import HEALTHY, LAPTOP, UNKNOWN
from jumar.testing.contracts.rule import RuleContract


class DoctorCheckContract(RuleContract):
    """A module with `RULE` and `find(host)`. Set `check` and `broken`.

        class TestMyCheck(DoctorCheckContract):
            check = acme.checks.my_check
            broken = [replace(HEALTHY, open_files=64)]

    `HEALTHY` of `jumar.testing.contracts.hosts` is a server without a fault, to plant one into.
    """

    check: RuleModule[Any]
    broken: Sequence[Host] = ()
    """Machines with the fault; at least one."""
    healthy: Sequence[Host] = (HEALTHY,)
    """Machines without it."""

    @property
    def rule(self) -> RuleModule[Any]:  # type: ignore[override]
        """The module of the check."""
        return self.check

    @property
    def bad(self) -> Sequence[Host]:  # type: ignore[override]
        """Machines with the fault."""
        return self.broken

    @property
    def good(self) -> Sequence[Host]:  # type: ignore[override]
        """Machines without it."""
        return self.healthy

    def test_its_code_is_of_the_doctor(self) -> None:
        """The doctor's codes are 8xx behind their letters."""
        assert self.the_rule().code[-3] == "8"

    def test_it_raises_nothing_on_a_machine_of_which_little_is_known(self) -> None:
        """None means that a value could not be read; the check says that it could not look, or nothing."""
        for host in (Host(), LAPTOP, UNKNOWN):
            assert all(isinstance(one, Finding | NotChecked) for one in self.check.find(host))

    def test_it_says_why_where_it_could_not_look(self) -> None:
        """What was not checked has the check's code and one sentence."""
        for host in (Host(), LAPTOP, UNKNOWN, *self.broken):
            for gap in (one for one in self.found(host) if isinstance(one, NotChecked)):
                assert gap.code == self.the_rule().code
                assert gap.reason.strip()
                assert "\n" not in gap.reason
