"""The options of TFAdapter: one table, what a script sets, and what is wrong with it."""

from __future__ import annotations

from jumar.tfadapter.options.agreement import (
    agree,
    agreeing_name,
    changes_of,
    is_default,
    must_agree,
    names_that_change,
)
from jumar.tfadapter.options.option import UNKNOWN, Kind, Option, Setting, Style, Unknown, Value
from jumar.tfadapter.options.table import options_of, others_of_the_tuner

__all__ = [
    "UNKNOWN",
    "Kind",
    "Option",
    "Setting",
    "Style",
    "Unknown",
    "Value",
    "agree",
    "agreeing_name",
    "changes_of",
    "is_default",
    "must_agree",
    "names_that_change",
    "options_of",
    "others_of_the_tuner",
]
