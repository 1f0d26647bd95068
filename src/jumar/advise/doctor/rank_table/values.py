"""The values of a rank table: numbers and addresses that are written as texts."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from jumar.advise.doctor.rank_table.fault import Fault
from jumar.base.findings import Severity


def number_of(value: object) -> int | None:
    """Return a whole number from 0, as text or number; else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if value >= 0 else None
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else None


def address_of(value: object) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address, else None."""
    try:
        return ipaddress.ip_address(value) if isinstance(value, str) else None
    except ValueError:
        return None


def text_faults(place: str, value: object) -> Iterator[Fault]:
    """Yield a fault where a number is written without quotes: the guide shows texts only."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield Fault(
            message=f"{place} must be a text; got the number {value}.",
            action=f'Write it in quotes: "{value}".',
            severity=Severity.WARNING,
        )
