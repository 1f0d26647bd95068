"""What `--cluster` names."""

from __future__ import annotations

import re

from jumar.base.errors import UsageError

LOCAL = "local"
_ADDRESS = re.compile(r"ray://[^\s/:]+:([0-9]{1,5})")


def parse_address(text: str) -> str:
    """Return `local` or `ray://host:port` as it is. Raises UsageError for anything else, or where Ray is missing."""
    from importlib.util import find_spec

    match = _ADDRESS.fullmatch(text)
    if text != LOCAL and (match is None or not 0 < int(match[1]) < 65536):
        raise UsageError(f'"--cluster {text}" must be local or ray://HOST:PORT. Try --cluster ray://head:10001.')
    if find_spec("ray") is None:
        raise UsageError(f'"--cluster {text}" needs Ray, which is not installed. pip install "jumar[cluster]".')
    return text
