"""What `verify` may say of a conversion; each rule is a page, its check is in `jumar.migrate.verify`."""

from __future__ import annotations

from jumar.migrate.rules.proof.changes_outside_edits import RULE as CHANGES_OUTSIDE_EDITS
from jumar.migrate.rules.proof.half_renamed import RULE as HALF_RENAMED
from jumar.migrate.rules.proof.result_does_not_parse import RULE as RESULT_DOES_NOT_PARSE
from jumar.migrate.rules.proof.undefined_name import RULE as UNDEFINED_NAME
from jumar.migrate.rules.proof.unknown_npu_name import RULE as UNKNOWN_NPU_NAME

RULES = (RESULT_DOES_NOT_PARSE, UNDEFINED_NAME, UNKNOWN_NPU_NAME, HALF_RENAMED, CHANGES_OUTSIDE_EDITS)

__all__ = [
    "CHANGES_OUTSIDE_EDITS",
    "HALF_RENAMED",
    "RESULT_DOES_NOT_PARSE",
    "RULES",
    "UNDEFINED_NAME",
    "UNKNOWN_NPU_NAME",
]
