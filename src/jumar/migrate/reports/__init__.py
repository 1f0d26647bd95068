"""The files that a conversion leaves beside the sources: the log, the list of changes, what is not supported."""

from __future__ import annotations

from jumar.migrate.reports.change_list import change_list
from jumar.migrate.reports.log import log
from jumar.migrate.reports.names import ReportNames, report_names
from jumar.migrate.reports.unsupported import Unsupported, left_over, workbook

__all__ = ["ReportNames", "Unsupported", "change_list", "left_over", "log", "report_names", "workbook"]
