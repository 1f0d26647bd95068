"""`jumar bank`: what the knowledge bank holds, why it has nothing for an operator, and how banks become one."""

from __future__ import annotations

from jumar.cli.bank.group import command

__all__ = ["command"]
