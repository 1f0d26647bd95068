"""`jumar doctor --fix`: changes that can be undone, shown before they are made, with the script that undoes them."""

from __future__ import annotations

from jumar.advise.doctor.fixes.change import Change, Move, Remount, Setting, Variables
from jumar.advise.doctor.fixes.make import Made, make
from jumar.advise.doctor.fixes.propose import Proposal, Refusal, propose

__all__ = ["Change", "Made", "Move", "Proposal", "Refusal", "Remount", "Setting", "Variables", "make", "propose"]
