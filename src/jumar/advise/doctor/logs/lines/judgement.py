"""`judged`: whether a line names an error, by its shape, its level and its words, and how sure that is."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from jumar.advise.doctor.logs.lines.chinese import NEEDLES as CHINESE_NEEDLES
from jumar.advise.doctor.logs.lines.chinese import counts_in_chinese, is_certain_in_chinese
from jumar.advise.doctor.logs.lines.counted import COUNTED_NEEDLES, counts_error, is_supposed
from jumar.advise.doctor.logs.lines.prefixes import Said
from jumar.advise.doctor.logs.lines.shapes import CERTAIN_NEEDLES, FIRM_NEEDLES, firm_shape, is_certain
from jumar.base.findings import Severity

LEVEL_NEEDLES = (".cpp:", ".cc:", ".cu:", ".py:", ".h:", "alert", "emerg", "severe", "err]", "err ", "nemo e")
"""What stands in a line that a logger calls an error, and that no other needle names."""
NEEDLES = tuple(dict.fromkeys((*COUNTED_NEEDLES, *CERTAIN_NEEDLES, *FIRM_NEEDLES, *LEVEL_NEEDLES, *CHINESE_NEEDLES)))
"""Every line that is judged an error holds one in lower case, or a letter for its level (`E0512 …`)."""

_EXCEPTION = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Expired|Fault|Timeout|NotFound|Exit)(?:\([\w.]+\))?"
    r"(?::(?!\s*-?[\d.]+(?:e-?\d+)?%?\s*$)(?:\s|$)|$)"
)
"""An exception as Python, Ray, Java and JavaScript print it; not `MeanSquaredError: 0.12`."""
_LISTING = re.compile(
    r"^(?:\s*(?:\d{1,5}\s*[:|]?\s+|❱\s*\d+\s+|>>> |\.\.\. |│\s*)?(?:raise\s+[\w.]+\s*(?:\(|$)|raise$|"
    r"except\b[^:]{0,80}:|"
    r"try:|(?:async )?def \w+\(|class \w+|elif |(?:if|while|for|with)\b.{1,200}:\s*(?:#.*)?$|else:|assert\b.*[=<>(,\[]|"
    r"return [\w.\"'{\[(-]|import [\w.]+(?: as \w+)?$|from [\w.]+ import |print\(|"
    r"(?:self\.)?_?(?:log(?:ger|ging)?|LOG|LOGGER|console|warnings)\.\w+\(|throw new |\} ?catch|std::(?:cerr|cout)\b|"
    r"f?printf\(|echo [\"'$]|@\w+|\"\"\"|\'\'\'|//\s|<!--|</?\w+>|"
    r"[a-z_]\w*(?:\.\w+)*(?:\s?: [\w\[\], .|]{1,80})?\s*[+|]?=\s*(?:[frb]{0,2}[\"'\[{(]|[\w.]+\(|self\b|\w+\.\w+,?$|"
    r"[a-z]\w*_\w+,?$)|"
    r"[frbu]{0,2}\"[^\"]*\"[,)]*$|[frbu]{0,2}'[^']*'[,)]*$|[a-z_]\w* = [a-z_]\w*$|"
    r"[a-z_]\w*(?: \w+)?: [A-Z]\w+ \| None\b)"
    r"|\s*[*-]?\s*(?:fix|feat|chore|docs|perf|refactor|test)(?:\(\w+\))?: |"
    r"\W{0,3}(?:Found \d+ )?(?:labels?|vocab(?:ulary)?|class(?:es| names)?|tokens?|prompt|question|sentence|caption|"
    r"generated|[QA])\b[^:=]{0,20}[:=] |"
    r"\s*#+\s+[A-Za-z][a-z]|\s+\*\s+[A-Za-z]|\++ (?:echo|export|set|cd|if|\[)\b|/{3}-+\[ERROR\]|# (?:HELP|TYPE) \w|"
    r"[a-z]{2}\s{1,3}[a-z0-9][\w.+:-]*\s+\d\S*\s+(?:all|amd64|arm64|aarch64|noarch)\s|"
    r"\s*\.\. \w+::|\s*:\w+(?: \w+)?:)"
)
"""Source code, a comment, a rule between sections, lists of packages or counters, or a command of a shell."""
_HELP = re.compile(
    r"^(?:\s*(?:-{1,2}[a-zA-Z][\w-]*(?:[ ,=\[]|$)|usage:|options?:$|:?(?:Raises|raises|Throws|throws)\b|@throws\b)|"
    r"(?:\s{2,}(?=.*(?:[Ii]f|[Ww]hen|[Rr]aised|[Ii]n case)\b)|(?=.*: (?:If|When|Raised|"
    r"In case)\b.*\.$))[A-Z]\w*(?:Error|Exception)\s*:\s*"
    r"(?:[Ii]f|[Ww]hen|[Rr]aised|[Ii]n case)\b|\s{2}.*``|"
    r"(?:\s+[a-z][\w-]{1,24}\s{2,}[A-Z][a-z]+\b|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,12} (?=[A-Za-z]))"
    r"(?!.*(?i:fail|crash|kill|abort|fatal|exception:|timed|\berrors?(?::| in | while | when | occur)))"
    r"(?<!Error)(?<!Errors))"
)
"""Help of a command, a docstring, and the title of a commit."""
_OLD = re.compile(r"\b(?:Pending)?Deprecation(?:Warning)?\b|\bFutureWarning\b|\bdeprecated\b")
_WARNS = re.compile(r"警告|\b\w*Warning:|^\s*warn(?:ing)?\b|\bwarning\s*:|\bwarnings\.warn\(", re.IGNORECASE)
_WARNING = re.compile(r"^(?:[\w./-]+:\d+: )?(?!Unhandled)\w*warning: ", re.IGNORECASE)
_RETRIED = re.compile(
    r"\b(?:retry(?:ing)?|retried|re-?trying|will (?:be )?(?:re-?tried|re-?try)|try(?:ing)? again|reconnect(?:ing|ed)?|"
    r"attempt (?:#?\d+(?: ?/ ?| of )\d+|failed)|recovered|succeeded|backing off)\b|重试|重新连接",
    re.IGNORECASE,
)
_WENT_ON = re.compile(
    r"忽略|跳过|使用默认|\bline \d+: \[+: |\b(?:fall(?:ing|s|en)? ?back|fallback|ignor(?:ed|ing|e)|skip(?:ped|ping|s)?|"
    r"non-?fatal|"
    r"not fatal|harmless|"
    r"continu(?:e|ing)|"
    r"(?:will be|is|has been|are) (?:disabled|not available|unavailable)|disabling|optional|us(?:e|"
    r"ing) .{1,60} instead|"
    r"default(?:s|ing)? to|using default|from scratch|exception ignored|"
    r"if (?:so|needed|you)|may|might|"
    r"can be safely)\b",
    re.IGNORECASE,
)
_SAYS_ERROR = re.compile(r"\b(?:error|fatal)\s*:", re.IGNORECASE)
_LAST = re.compile(
    r"\b(?:gave up|giving up|no more|exhausted|exceeded|last attempt|too many)\b|\b(\d+) ?(?:/|of) ?\1\b", re.IGNORECASE
)
_HAPPENED = re.compile(
    r"\b(?:failed(?! to (?:find|load|import|locate|open|detect|query|get|resolve)\b)|crashed|aborted|killed|"
    r"panic(?:ked)?|"
    r"timed out|fatal|out of memory)\b",
    re.IGNORECASE,
)
_NOTHING = re.compile(
    r"^\W*(?:rates?|counts?|total|number|num|ratio|norm|codes?)?\W*(?:0+(?:\.\d+)?%?|\d*\.\d+%?|none|null|no|n/a|off|"
    r"false)\W*$",
    re.IGNORECASE,
)
_VENDOR = re.compile(r"^\[[A-Z]+\]\s?[A-Z][A-Z0-9_]*\(\d")
_NO_REASON = re.compile(
    r"^(?:Traceback \(most recent call|ray\.(?:exceptions\.RayTaskError|train\.[\w.]*TrainingFailedError)\b|"
    r"terminate called\b|"
    r"-- Configuring incomplete\b|(?:g?make|mingw32-make)(?:\[\d+\])?: \*\*\*|"
    r"ninja: build stopped|FAILED: |collect2: error: ld returned\b|Root Cause \(first observed failure\)|"
    r"error: command '?\S+ failed\b|error: subprocess-exited-with-error|× )|"
    r"\b(?:exit ?code|exitcode|return ?code|returncode|exit status|exited with(?: code)?)\W{0,4}(?<!-)(?:[1-9]|[1-9]\d|"
    r"1[01]\d|12[0-5]|-15|143)\b|\bHTTP/[\d.]+[\"'] (?:5\d\d|111)\b",
    re.IGNORECASE,
)
"""That something failed whose reason stands in another line."""
_BY_SIGNAL = re.compile(
    r"\b(?:exit ?code|exitcode|return ?code|returncode|exit status|exited with(?: code)?)\W{0,4}(?<!-)"
    r"(?:-(?!15\b)[1-9]|1(?!43\b)[3-9]\d)\b",
    re.IGNORECASE,
)
"""What a launcher says of a process that a signal ended: a reason where none stands above it; SIGTERM is none."""
_AROUND = 80
_MOST_CHARACTERS = 4000
"""A longer line is judged in parts: some expressions take the square of a line's length."""
_OVERLAP = 200


@dataclass(frozen=True, slots=True)
class Judgement:
    """That a line names an error."""

    severity: Severity
    """Error; warning where the program went on, or where a logger calls it a warning."""
    weight: int = 2
    """0: an exception; 1: what only a failure prints; 2: level or words; 3: an end by a signal; 4: tells no reason."""


def may_name_error(lower: str) -> bool:
    """Tell whether text in lower case can name an error: a fast test before `judged`."""
    return any(needle in lower for needle in NEEDLES)


def judged(said: Said) -> Judgement | None:
    """Return whether a line names an error, a failure, a signal or an exit code other than 0, else None."""
    if len(said.text) <= _MOST_CHARACTERS:
        return _judged(said)
    parts = (said.text[at : at + _MOST_CHARACTERS] for at in range(0, len(said.text), _MOST_CHARACTERS - _OVERLAP))
    found = [one for part in parts if (one := _judged(replace(said, text=part))) is not None]
    return max(found, key=lambda one: (one.severity, -one.weight), default=None)


def _judged(said: Said) -> Judgement | None:
    text = said.text.strip()
    lower = text.lower()
    if said.level != "error" and not may_name_error(lower):
        return None
    if _is_quoted(said):
        return None
    if _EXCEPTION.match(text):
        return Judgement(Severity.ERROR, 4 if _NO_REASON.match(text) else 0)
    if (is_certain(text, lower) or is_certain_in_chinese(text)) and not _WARNING.match(text):
        return Judgement(Severity.ERROR, _certain_weight(text))
    severity = _of_level(text) if said.level == "error" else _of_words(said, text, lower)
    return None if severity is None else Judgement(severity)


def _certain_weight(text: str) -> int:
    if _NO_REASON.search(text):
        return 4
    return 3 if _BY_SIGNAL.search(text) else 1


def _is_quoted(said: Said) -> bool:
    """Tell whether the line is source code, help, or news of the vendor's that no error is."""
    if _VENDOR.match(said.text):
        return said.level in ("info", "debug")
    if said.level in ("error", "warning"):  # a logger speaks
        return _OLD.search(said.text) is not None
    return bool(_LISTING.match(said.text) or _HELP.match(said.text) or _OLD.search(said.text))


def _of_level(text: str) -> Severity | None:
    if 0 < len(text) < _AROUND and _NOTHING.match(text):
        return None
    return Severity.WARNING if _is_retried(text) else Severity.ERROR


def _of_words(said: Said, text: str, lower: str) -> Severity | None:
    firm = firm_shape(text, lower)
    is_firm = firm is not None and not is_supposed(text[max(0, firm.start() - _AROUND) : firm.start()])
    if said.level == "debug" or not (is_firm or counts_error(text) or counts_in_chinese(text)):
        return None
    if said.level == "info":
        return Severity.WARNING if _HAPPENED.search(text) else None
    went_on = _WENT_ON.search(text) is not None and _SAYS_ERROR.search(text) is None
    is_soft = said.level == "warning" or _WARNS.search(text) or went_on or _is_retried(text)
    return Severity.WARNING if is_soft else Severity.ERROR


def _is_retried(text: str) -> bool:
    return _RETRIED.search(text) is not None and _LAST.search(text) is None
