"""`Guard`: who may ask. Only this machine's user, who has the address with the token, from this server's own pages.

- The address that `jumar view` prints holds a random token; it is exchanged for a cookie (HttpOnly, SameSite=Strict).
- A `Host` that is not this machine's own name is refused: another site cannot point its name at this server (DNS
  rebinding).
- An `Origin`, or a `Sec-Fetch-Site`, of another page is refused, and everything but GET and HEAD.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

POLICY = (
    "default-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; script-src 'self'; img-src 'self' data:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Of the workbench's own pages. The blocks set widths of bars in `style` attributes, from numbers."""
SANDBOX = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts"
)
"""Of a page that lies in the folder: it is of an origin of its own, so that it cannot read what the server answers."""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
METHODS = frozenset({"GET", "HEAD"})
_OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
_ALLOWED_SITES = frozenset({"", "none", "same-origin"})

Answer = Literal["enter", "pass"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not answered, in a sentence, with its status."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class Guard:
    """Judges requests to the server on one port."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def cookie(self) -> str:
        """The cookie's name; browsers do not tell ports apart, so it holds the port."""
        return f"jumar-view-{self.port}"

    @property
    def address(self) -> str:
        """The address that lets in who knows it."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def judge(self, method: str, headers: Mapping[str, str], token: str | None, cookie: str | None) -> Refusal | Answer:
        """Return `pass`, `enter` for who brings the token (set the cookie), or why not. Names of headers are small."""
        if (refusal := self._elsewhere(method, headers)) is not None:
            return refusal
        if token is not None:
            return "enter" if self._is_token(token) else Refusal(403, "The token is wrong: jumar view printed another.")
        if headers.get("sec-fetch-site", "") not in _ALLOWED_SITES:
            return Refusal(403, "The request comes from another page. Open the address that jumar view printed.")
        if cookie is None or not self._is_token(cookie):
            return Refusal(403, "Open the address that jumar view printed: it holds a token.")
        return "pass"

    def _elsewhere(self, method: str, headers: Mapping[str, str]) -> Refusal | None:
        """Return why a request is refused, whatever token it has: for what it wants, or where it comes from."""
        if method not in METHODS:
            return Refusal(405, "The workbench only shows: GET and HEAD are answered.")
        host = headers.get("host", "")
        if host not in {f"{name}:{self.port}" for name in _OWN_NAMES}:
            return Refusal(403, "The request's Host is not this machine. Open the address that jumar view printed.")
        if headers.get("origin", f"http://{host}") != f"http://{host}":
            return Refusal(403, "The request comes from another page.")
        return None

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())
