"""Lines that report an error by their shape alone, whatever else they say: `is_certain`, `firm_shape`.

*Certain* is what only a failure prints: a signal, an exit code, a crash of the C library, an exception of any language,
a compiler's or a package manager's error. *Firm* is that something could not be done: a program may go on after it.
"""

from __future__ import annotations

import re

_CERTAIN = (
    # signals and crashes
    r"\bsegmentation fault|\bsegfault\b|\bbus error\b|\billegal instruction\b|\bfloating point exception\b|"
    r"\bcore dumped\b|"
    r"\bstack smashing detected|\bbuffer overflow detected|\bdouble free or corruption|\bcorrupted (?:size|double)|"
    r"\b(?:free|realloc|munmap_chunk|malloc)\(\): [a-z]|\bterminate called\b|^\s*what\(\):|"
    r"\bpure virtual method called|"
    r"\bstd::(?:bad_alloc|logic_error|runtime_error|out_of_range)\b|\bfatal python error\b|\b(?:Address|Leak|"
    r"Thread)Sanitizer:|"
    r"\bsig(?:kill|segv|abrt|bus|fpe|ill)\b|"
    r"\b(?:received|got|caught|by|with) (?:signal )?sig(?:term|int|hup|quit|pipe|trap|xcpu|usr[12])\b|"
    r"\b(?:received|got|caught|by|on|with) signal:? \d|\bsignal: (?:killed|aborted|segmentation)|"
    r"\b(?:dumped core|general protection fault|trace/breakpoint trap|kernel panic|unable to handle kernel)\b|"
    r"(?:^|:\s+(?:\d+\s+)?)(?:killed|aborted!?|bus error)\s*(?:\(|$|\s{3,}\S)|^(?:quit|hangup)$|\bhung_task\b|"
    r"blocked for more than \d+ sec|"
    # ends of processes
    r"\bHTTP/[\d.]+[\"'] (?:5\d\d|111)\b|"
    r"\bexit(?:s|ed|ing)?\s*(?:with\s*)?(?:an?\s+)?(?:non-?zero\s+)?(?:return\s*)?_?(?:code|"
    r"status)['\"]?\s*(?:of\s*)?[:=]?\s*"
    r"['\"(]?-?0*[1-9]|\bexit(?:s|ed) (?:with |on )(?:signal )?-?[1-9]\d*\b(?! [a-z])|\bexited \([1-9]\d*\)|"
    r"\berror_?\s?code['\"]?\s*(?:is|:|=)?\s*-?[1-9]|"
    r"\bnon-?zero (?:exit|return|status)|"
    r"\b(?:rc|return_?\s?code|returncode|exitcode)['\"]?\s*[:=]\s*-?[1-9]|\breturned (?:a )?(?:exit )?(?:code|"
    r"status) -?[1-9]|"
    r"\bcode=(?:killed|dumped)\b|\bcode=exited, status=[1-9]|\bfailed with result\b|\bdied with\b|"
    r"\bchild process (?:died|terminated)|"
    r"\*{3} process received signal|\bbad termination\b|\b(?:soft|hard) lockup\b|\bself-detected stall\b|"
    r"\bdeadlock detected\b|"
    # containers and schedulers
    r"\b\d+/\d+\s+(?:Init:)?Error\b|^pods?/\S+ +Error\b|\b(?:Disk|Memory|PID)Pressure\b(?=\W*$)|"
    r"\breached .{0,30}backoff limit|"
    r"\b(?-i:OOMKilled|CrashLoopBackOff|ImagePullBackOff|ErrImagePull|ErrImageNeverPull|RunContainerError|"
    r"ContainerCannotRun|"
    r"CreateContainer(?:Config)?Error|InvalidImageName|FailedScheduling|FailedMount|FailedAttachVolume|"
    r"FailedCreate\w*|FailedKillPod|"
    r"DeadlineExceeded|BackoffLimitExceeded|DEADLINE_EXCEEDED|NodeNotReady|UnexpectedAdmissionError|OutOfcpu|"
    r"OutOfmemory|NetworkNotReady)\b|"
    r"\b(?-i:Evicted)\b(?= +(?:\d|pod|<)|\W*$)|"
    r"\bback-off restarting\b|\boom[-_ ]?kill|\boom reaper\b|\binvoked oom-killer\b|\bout of memory:|"
    r"\bDUE TO TIME LIMIT\b|"
    r"\btime limit\b.{0,40}\b(?:reached|exceeded|exhausted)|"
    # exceptions of other languages
    r"\bexception in thread\b|^\s*caused by: |\bunhandled exception\b|\buncaught (?:exception|\w*error)|"
    r"\b(?:goroutine \d+ \[|fatal error: )|^panic: |\bthread '[^']*' (?:\(\d+\) )?panicked at\b|^error\[E\d{4}\]|"
    r"\bnpm err!|\bUnhandledPromiseRejection|\bsegfault at\b|\bstack ?trace:|"
    r"(?-i:\bTraceback \(most recent call (?:last|first)\))|\bcurrent thread \w+ \(most recent call first\)|"
    # compilers, builds, packages, shells
    r"^make(?:\[\d+\])?: \*\*\*|^(?:gmake|mingw32-make)(?:\[\d+\])?: \*\*\*|\bninja: (?:build stopped|error|fatal)|"
    r"(?-i:^FAILED: )|"
    r"\bcmake error\b|\bconfiguring incomplete\b|[\w)]:\d+(?::\d+)?: (?:fatal )?error: |\bcollect2: error|"
    r"\bundefined reference to\b|"
    r"\bld(?:\.\w+)?: cannot find\b|\bsymbol lookup error\b|\bundefined symbol\b|\bversion [`'][\w.]+' not found|"
    r"\bstatic tls block\b|\berror while loading shared libraries\b|(?-i:^E: \S)|\bno matching distribution found|"
    r"\bcould not find a version that satisfies|\bfailed building wheel|\bunable to (?:locate package|find a match)|"
    r"\bno (?:match for argument|package \S+ available)|\bcommand not found\b|: not found$|=> not found$|"
    r"\bsyntax error near\b|: unbound variable$|\bbad substitution\b|\bexec format error\b|\bargument list too long\b|"
    r":\d+:\d+: undefined: |(?-i:^E {3,}\S)|\blibrary not found\b|\bdid not run successfully|"
    r"\bunexpected end of file\b|"
    r"(?-i:\bERR_[A-Z_]{4,})|\bcannot execute(?: binary file)?\b|^(?:ba|z|da)?sh: (?:line )?\d+: \S|"
    r"\bunrecognized arguments\b|"
    # the vendor's, PyTorch's
    r"\bassert(?:ion)?\b.{0,200}\bfailed\b|\binternal assert\b|\bmax retries exceeded\b|\bretries (?:are )?exhausted\b|"
    r"\bgiving up\b|\bwatchdog caught\b|\bto (?:terminate|bring down) the (?:entire )?process\b|"
    r"\bunhandled system error\b|"
    r"\bloss\b\W{0,3}(?:(?:is|became)\W)?\s?nan\b|\bout of memory!!!"
)
_FIRM = (
    r"\bline \d+: \[+: |"
    r"\b(?:is|was|were|are) unable to\b|\bwent wrong\b|\b(?:checksum|hash|digest) mismatch|\bfile (?:is |"
    r"was )?truncated\b|"
    r"\b(?:not enough|insufficient) (?:\w+ )?(?:memory|space|resources|devices|disk|permissions?|privileges)\b|"
    r"\b(?:child|worker|process|rank|node|actor|task|job|peer|server|client|trainer|replica|engine)\b.{0,30}"
    r"\b(?:died|(?:disconnected|exited|terminated|stopped) unexpectedly|vanished)\b|"
    r"\b(?:device|heartbeat|link|card|npu|node|worker|peer|rank)\s+(?:\d+\s+)?(?:is |was )?(?:lost|down|dead|"
    r"offline)(?![-\w])|"
    r"\btime-?out (?:waiting|while)\b|^\W*(?:[\w./-]+ ){1,4}(?:is|are) missing\W*$|"
    r"\b(?:cannot|can't|could ?n(?:o|')t|unable to) (?:be )?(?:open|allocat|f[io]u?nd|import|load|connect|read|writ|"
    r"access|creat|map|start|resolv|reach|init|re-?init|execut|get|set|bind|stat|determin|parse|convert|compil|link|"
    r"assign)|"
    r"^\W{0,3}(?:\w+: )?(?:cannot|can't|could not|couldn't|unable to|fail(?:ed)? to)\b|"
    r"\bno such (?:file|device|process|option|container|host|image)|\bpermission denied|\bno space left|"
    r"\boperation not permitted|"
    r"\b(?:connection|host|network)(?: is)? (?:refused|reset|timed out|unreachable|aborted|closed by)|"
    r"\bno route to host|"
    r"\bname or service not known|\btemporary failure in name resolution|\bbroken pipe|\bread-only file system|"
    r"\bdisk quota exceeded|\bstale file handle|\bcannot allocate memory|\bdevice or resource busy|"
    r"\btoo many open files|"
    r"\binput/output error|\baddress already in use|\btiming out\b|\btime-?out (?:expired|exceeded|reached|occurred)|"
    r"\bcheck failed\b|\bnot a directory$|\bis a directory$|\bno module named\b|\btraceback\b(?=\W*$)|"
    r"\bout of (?:bounds|range)\b|\bcorrupt(?:ed|ion)\b|"
    r"^\W{0,3}(?:level(?:name)?|severity|lvl)\b\W{1,4}(?:error|critical|fatal|alert|emerg)\b"
)
_CERTAIN_SHAPE = re.compile(_CERTAIN, re.IGNORECASE)
_FIRM_SHAPE = re.compile(_FIRM, re.IGNORECASE)
CERTAIN_NEEDLES = (
    "received signal", "bad termination", "lockup", "self-detected", "deadlock", "pressure", "backoff", "undefined: ",
    "e    ", "library not", "run successfully", "end of file", "err_", "fault", "error", "illegal", "exception",
    "dumped", "detected", "double free", "corrupted", "(): ", "terminate", "what()", "pure virtual", "std::",
    "sanitizer:", "sigkill", "sigsegv", "sigabrt", "sigbus", "sigfpe", "sigill", "sigterm", "sigint", "sighup",
    "sigquit", "sigpipe", "sigtrap", "sigxcpu", "sigusr", "panic", "kernel", "killed", "abort", "quit", "hangup",
    "hung_task", "blocked for", "exit", "zero", "rc=", "rc:", "rc =", "rc'", 'rc"', "return", "code=", "failed",
    "died", "child process", "oomkill", "oom-kill", "oom_kill", "oom kill", "oom reaper", "back-off", "errimage",
    "cannotrun", "imagename", "failedm", "exceeded", "notready", "evicted", "outofcpu", "outofmemory", "out of",
    "time limit", "caused by", "goroutine", "unhandled", "npm err!", "trace", "current thread", "make", "ninja:",
    "incomplete", "undefined", "cannot", "not found", "static tls", "e: ", "matching distribution", "could not",
    "unable", "no match", "no package", "unbound", "substitution", "too long", "sh: ", "unrecognized", "assert",
    "retries", "giving up", "http/", "watchdog", "bring down", "loss", "signal", "admission",
)  # fmt: skip
"""Every certain shape holds one, in lower case. NOTE: over a block expressions take 100 times as long (measured)."""
FIRM_NEEDLES = (
    ": [", "went wrong", "mismatch", "truncated", "not enough", "insufficient", "died", "unexpectedly", "vanished",
    " lost", " down", " dead", "offline", "missing", "cannot", "can't", "could", "unable", "failed to", "fail to",
    "no such", "denied", "no space", "permitted", "connection", "host", "check", "network", "name or service",
    "temporary",
    "broken pipe", "read-only", "quota", "stale", "busy", "too many", "input/output", "in use", "timing out",
    "timeout", "time-out", "directory", "no module", "traceback", "out of", "corrupt", "level", "severity", "lvl",
)  # fmt: skip
"""Every firm shape holds one, in lower case."""


def is_certain(text: str, lower: str) -> bool:
    """Tell whether only a failure prints this; `lower` is `text` in lower case."""
    return any(needle in lower for needle in CERTAIN_NEEDLES) and _CERTAIN_SHAPE.search(text) is not None


def firm_shape(text: str, lower: str) -> re.Match[str] | None:
    """Return what says that something could not be done, or None; `lower` is `text` in lower case."""
    return _FIRM_SHAPE.search(text) if any(needle in lower for needle in FIRM_NEEDLES) else None
