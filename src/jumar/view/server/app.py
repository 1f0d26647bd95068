"""`application`: the guard, then the routes. Every answer, a refusal too, has the headers that keep others out."""

from __future__ import annotations

import json
import traceback
from collections.abc import Awaitable, Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jumar.base.errors import JumarError
from jumar.view.bench import Bench
from jumar.view.pages.answers import Answer, Query, message, missing
from jumar.view.render import TYPES, rendered, static
from jumar.view.server.guard import HEADERS, POLICY, SANDBOX, Guard, Refusal
from jumar.view.server.routes import ROUTES, Handler

HTML = "text/html; charset=utf-8"
OWN = {**HEADERS, "Content-Security-Policy": POLICY}
_ENTRY = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Jumar</title>'
    '<link rel="icon" href="data:,">'
    '<meta http-equiv="refresh" content="0; url=/"></head><body><main><h1>Jumar</h1>'
    '<p><a href="/">To the workbench</a></p></main></body></html>'
)
"""The page behind the address with the token. It leads on by itself, so that the token leaves the address, and the next
request comes from a page of this server, without which a browser keeps a cookie of `SameSite=Strict` back."""

Scope = dict[str, Any]
Asgi = Callable[[Scope, Any, Any], Awaitable[None]]


def application(bench: Bench, guard: Guard) -> Asgi:
    """Return the application that serves a folder to who passes the guard."""
    routes = [Route(path, _endpoint(bench, handler)) for path, handler in ROUTES.items()]
    routes.append(Route("/static/{name}", _static))
    routes.append(Route("/{rest:path}", _endpoint(bench, lambda *_: missing("There is no such page."))))
    inner = Starlette(routes=routes)

    async def guarded(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        judged = _judge(guard, Request(scope))
        if judged == "pass":
            await inner(scope, receive, send)
        else:
            await _let_in_or_refuse(guard, judged)(scope, receive, send)

    return guarded


def _judge(guard: Guard, request: Request) -> Refusal | str:
    cookies: SimpleCookie = SimpleCookie()
    try:
        cookies.load(request.headers.get("cookie", ""))
    except CookieError:
        cookies.clear()
    cookie = cookies.get(guard.cookie)
    token = request.query_params.get("token")
    return guard.judge(request.method, request.headers, token, cookie.value if cookie is not None else None)


def _let_in_or_refuse(guard: Guard, judged: Refusal | str) -> Response:
    if not isinstance(judged, Refusal):
        response = Response(_ENTRY, 200, OWN, HTML)
        response.set_cookie(guard.cookie, guard.token, path="/", httponly=True, samesite="strict")
        return response
    answer = message("Refused", judged.reason)
    headers = OWN | ({"Allow": "GET, HEAD"} if judged.status == 405 else {})
    return Response(rendered("refused.html", answer.context), judged.status, headers, HTML)


def _endpoint(bench: Bench, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        query = Query({name: request.query_params.getlist(name) for name in request.query_params})
        return await run_in_threadpool(_response, handler, bench, dict(request.path_params), query)

    return answer


def _response(handler: Handler, bench: Bench, path: Mapping[str, str], query: Query) -> Response:
    try:
        return _sent(handler(bench, path, query), query)
    except (JumarError, OSError) as error:
        sentence = str(error)[:1].upper() + str(error)[1:]
        return _sent(message("It cannot be read", sentence, links=[("/", "All results")]), query)
    except Exception as error:  # noqa: BLE001 - the last line of defence: the server goes on
        traceback.print_exc()
        sentence = (
            f"{type(error).__name__}: a defect of Jumar, not of your files. Please report the lines in the terminal."
        )
        return _sent(message("A defect of Jumar", sentence, status=500, links=[("/", "All results")]), query)


def _sent(answer: Answer, query: Query) -> Response:
    """Return an answer as HTTP has it."""
    if answer.raw is not None:
        return Response(answer.raw, media_type=HTML, headers={**HEADERS, "Content-Security-Policy": SANDBOX})
    headers = dict(OWN)
    if answer.seen:
        if answer.seen == query.text("seen"):
            return Response(status_code=204, headers=headers)
        headers["X-Seen"] = answer.seen
    if not answer.template:
        return Response(json.dumps(answer.json), answer.status, headers, "application/json")
    return Response(rendered(answer.template, answer.context), answer.status, headers, HTML)


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    body = static(name)
    if body is None:
        return Response("Not found", 404, OWN, "text/plain")
    return Response(body, 200, OWN, TYPES[name.rpartition(".")[2]])
