"""The main job: chains assess, convert, run, compare and advise into one folder."""

from jumar.port.options import PortOptions
from jumar.port.pipeline import port
from jumar.port.result import PortResult

__all__ = ["PortOptions", "PortResult", "port"]
