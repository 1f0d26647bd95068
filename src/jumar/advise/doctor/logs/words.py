"""Which lines name an error, by their words alone: `names_error`.

A word such as `error` or `failed` counts unless what stands around it takes it back: none happened (`0 errors`,
`failed: 0`), a number is measured (`val error 0.12`), or it is part of another name (`error bars`, `error.png`).
"""

from __future__ import annotations

import re

_COUNTED = (
    r"\berrors?\b|(?-i:\b[A-Z]\w*(?:Error|Exception|Interrupt)\b(?=\s*(?:[:(\r\n]|$)))|"
    r"\b(?:fail(?:ed|ures?|s|ing)|exceptions?|abort(?:ed|ing)|killed|crashed|timed out|out of memory|terminated)\b|"
    r"(?-i:\bFAIL\b)|\bpanic(?:ked)?\b"
)
"""Words that what stands around them may take back."""
_CERTAIN = (
    r"\bfatal\b|(?-i:\bCRITICAL\b)|\b(?:level(?:name)?|severity|lvl)\b\W{1,4}(?:critical|alert|emerg)|"
    r"(?:^|\[)(?-i:[EF])\d{3,4} (?=[^\]]{0,60}\.(?:cpp|cc|cu|py|h):\d+\])|"  # glog's severity
    r"\bsegmentation fault|\bsegfault|\bbus error|\billegal instruction|\bcore dumped|\boom[-_ ]?kill|"
    r"\bsig(?:kill|segv|abrt|bus|fpe|ill)\b|\b(?:received|got|caught|by|with) (?:signal )?sig[a-z]+\b|"
    r"\bexit(?:ed)?\s*(?:with\s*)?(?:code|status)\s*[:=]?\s*-?[1-9]|\b(?:rc|return ?code)\s*[:=]\s*-?[1-9]|"
    r"\b(?:cannot|can't|could ?n(?:o|')t|unable to) (?:be )?(?:open|allocat|f[io]u?nd|import|load|connect|read|writ|"
    r"access|creat|map|start|resolv|reach|init|execut)|"
    r"\bno such file or directory|\bcommand not found|\bpermission denied|\bno space left|\boperation not permitted|"
    r"\bconnection (?:refused|reset|timed out)|\bunrecognized arguments|\bassert(?:ion)?\b.{0,200}\bfailed|"
    r"\bcheck failed|\bmax retries exceeded|\bstack ?trace\b|\btime limit\b|\btiming out\b|"
    r"\btime-?out (?:expired|exceeded|reached)|\bloss\b\W{0,3}(?:(?:is|became)\W)?\s?nan\b"
)
_COUNTED_WORD = re.compile(_COUNTED, re.IGNORECASE)
_CERTAIN_WORD = re.compile(_CERTAIN, re.IGNORECASE)
_COUNTED_NEEDLES = (
    "error", "exception", "interrupt", "fail", "abort", "killed", "crashed", "timed out", "out of memory", "terminated",
    "panic",
)  # fmt: skip
_CERTAIN_NEEDLES = (
    "fatal", "critical", "alert", "emerg", ".cpp:", ".cc:", ".cu:", ".py:", ".h:", "segmentation", "segfault", "bus e",
    "illegal", "dumped", "oom", "sig", "exit", "rc=", "rc:", "rc =", "rc :", "return", "cannot", "can't", "could",
    "unable", "no such", "not found", "denied", "no space", "permitted", "connection", "unrecognized", "assert",
    "check", "retries", "stack", "limit", "timing out", "timeout", "time-out", "nan",
)  # fmt: skip
"""Every match of the expressions holds one. NOTE: over a block the expressions take 100 times as long (measured)."""
_AROUND_CHARACTERS = 80

_NUMBERED = re.compile(
    r"(?:actor|attempt|batch|client|container|core|device|epoch|fold|gpu|group|host|id|index|iter|iteration|job|layer|"
    r"local_rank|node|npu|part|phase|pid|pod|proc|process|rank|replica|request|retry|run|sample|shard|stage|step|task|"
    r"thread|trial|try|worker)",
    re.IGNORECASE,
)
"""Words whose number is a name, not a count: `rank 0 failed`."""
_OTHERS = (
    r"(?:(?:errors?|failures?|exceptions?|warnings?|failed|crashed|aborted|killed)\s*(?:,|/|\b(?:or|and|nor)\b)\s*)*$"
)
_DENIED = re.compile(r"\b(?:no|without|zero|never|any|not)\s+(?:\w+\s+)?" + _OTHERS, re.IGNORECASE)
_ZERO = re.compile(
    r"(?P<of>[A-Za-z_]+)?[\s:=#(\[,;|]*(?<![\w.])0(?:/\d+)?\s+(?:[A-Za-z]\w*\s+)?" + _OTHERS, re.IGNORECASE
)
_NAUGHT = re.compile(
    r"""^["']?(?:\s+[A-Za-z]\w*){0,2}(?:\s*["']?[:=|]\s*|\s+(?=0))(?:0+(?:\.0+)?%?(?![\w.:/])|\[\]|\{\}|""|''|"""
    r"""(?:none|null|false|no|n/a|off|disabled)(?=\s*(?:[,;.)}\]|]|$)))""",
    re.IGNORECASE,
)
_NUMBER = r"[-+]?(?:\d*\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+|\d+\s*%)(?![\w.]*[.:]\d)(?!\s*[kmgt]i?b\b)"
_MEASURED = re.compile(
    rf"^(?:\s+rate|\s+norm|\s+(?:on|in|of|per|over|for)(?:\s+\w+){{1,3}}(?=\s*[:=|]))?\s*[:=|(]?\s*\[?\s*{_NUMBER}",
    re.IGNORECASE,
)
_METRIC = re.compile(
    r"\b(?:train(?:ing)?|val(?:id(?:ation)?)?|test|eval(?:uation)?|mean|average|avg|median|max(?:imum)?|min(?:imum)?|"
    r"squared?|absolute|abs|relative|rel|percentage|standard|rms|mse|mae|rmse|l[12]|top-?\d+|word|char(?:acter)?|"
    r"(?:re)?construction|quanti[sz]ation|prediction|generali[sz]ation|approximation|estimation|rounding|numerical|"
    r"classification|calibration|regression|truncation|residual|position|rotation|translation|angular|depth|pose|"
    r"alignment|interpolation|forecast|bellman|td|best|final)[\s_-]+$",
    re.IGNORECASE,
)
_TOLD = re.compile(r"^s?(?:\s*:\s*[A-Za-z(]|\s+(?:occurred|in|while|when|during|at)\b)", re.IGNORECASE)
"""After `test error`: an error is told, none is measured."""
_OTHER_NAME = re.compile(
    r"^(?:\.(?:png|txt|log|json|csv|py|pt|npy|html|pdf|svg|out|err)\b|-(?:free|prone|tolerant|rate)\b|"
    r"\s+(?:handlers?|hooks?|rates?|curves?|bars?|bounds?|budget|tolerance|correction|recovery|detection|policy|"
    r"callbacks?|feedback|thresholds?|metrics?|handling(?=\s*(?:[:=,.;]|$|is\b|enabled|on\b)))\b|"
    r"\s*codes?\s*[:=]?\s*0(?![\w.]))",
    re.IGNORECASE,
)
_OPTION = re.compile(r"(?:^|\s)--[\w-]*$")
_ENDED = re.compile(r"(?:^|\d:)\s*$")


def may_name_error(lower: str) -> bool:
    """Tell whether text in lower case can name an error: a fast test before `names_error`."""
    return _holds(lower, _COUNTED_NEEDLES) or _holds(lower, _CERTAIN_NEEDLES)


def names_error(line: str) -> bool:
    """Tell whether a line names an error, a failure, a signal or an exit code other than 0."""
    lower = line.lower()
    if _holds(lower, _CERTAIN_NEEDLES) and _CERTAIN_WORD.search(line):
        return True
    if not _holds(lower, _COUNTED_NEEDLES):
        return False
    return any(not _is_taken_back(line, word) for word in _COUNTED_WORD.finditer(line))


def _holds(text: str, needles: tuple[str, ...]) -> bool:
    return any(needle in text for needle in needles)


def _is_taken_back(line: str, word: re.Match[str]) -> bool:
    before = line[max(0, word.start() - _AROUND_CHARACTERS) : word.start()]
    after = line[word.end() : word.end() + _AROUND_CHARACTERS]
    if word[0].lower() == "terminated":  # a state of a container; alone, or behind a task's number, an end by a signal
        return bool(after.strip()) or not _ENDED.search(before)
    if word[0].lower().rstrip("s").endswith("error") and _is_metric(before, after):
        return True
    if _NAUGHT.match(after) or _DENIED.search(before) or _is_none(before):
        return True
    return bool(_OTHER_NAME.match(after) or _OPTION.search(before))


def _is_metric(before: str, after: str) -> bool:
    """Tell whether the error between these is a measured one."""
    return bool(_MEASURED.match(after) or (_METRIC.search(before) and not _TOLD.match(after)))


def _is_none(before: str) -> bool:
    """Tell whether a count of 0 stands before the word."""
    zero = _ZERO.search(before)
    return zero is not None and not _NUMBERED.fullmatch(zero["of"] or "")
