"""Gate: who may ask the studio for anything. Every request shows the token; pages of other sites are refused."""

from __future__ import annotations

import hashlib
import hmac
import http
import ipaddress
import re
import secrets
import socket
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from websockets.http11 import Request, Response

Answer = Callable[[Any, "Request"], "Response | None"]


class Gate:
    """Stands before the server of the page: a request passes with the token, from an origin of its own, or not at all.

    The first visit brings the token in the address and gets it as a cookie, which every later request shows. `Host`
    must name this machine by number or by a name it is known to have, so that no name of a stranger can be pointed at
    it (DNS rebinding); a WebSocket must come from a page of this very address, since browsers let any page open one.
    """

    def __init__(self, host: str) -> None:
        self._token = secrets.token_urlsafe(18)
        self._tickets: set[str] = set()
        self.nonce = secrets.token_urlsafe(12)
        self._cookie = f"saltus_{hashlib.sha256(self._token.encode()).hexdigest()[:8]}"
        self._names = {"localhost", socket.gethostname().lower(), host.lower()}

    def address(self, host: str, port: int, *, once: bool = False) -> str:
        """Where to go with the token; `once` gives one that lets a single visitor in.

        The command line of a browser can be read by every user of a computer, so that one is for it.
        """
        token = self._token
        if once:
            token = secrets.token_urlsafe(18)
            self._tickets.add(token)
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/?token={token}"

    def before(self, serve: Answer) -> Answer:
        """`serve`, which answers requests and gives None for a WebSocket, for those who may come in."""

        def answer(connection: Any, request: Request) -> Response | None:
            host = self._host(request)
            if host is None:
                return _refusal("this address is not one of the studio's; open the one that `saltus studio` printed")
            if self._brings_token(request):
                headers = {"Location": _place(request, host), "Set-Cookie": f"{self._cookie}={self._token}; {COOKIE}"}
                return _response(http.HTTPStatus.SEE_OTHER, "", headers)
            if not self._shows_cookie(request):
                return _refusal("this studio needs its token: open the address that `saltus studio` printed")
            origins = request.headers.get_all("Origin")
            if origins and origins != [f"http://{host}"]:
                return _refusal("a page of another site asked for this")
            if asked(request) and "Upgrade" not in request.headers:
                return _response(http.HTTPStatus.SEE_OTHER, "", {"Location": _place(request, host)})
            response = serve(connection, request)
            if response is None:
                return None if origins else _refusal("a WebSocket says which page opened it (Origin)")
            response.headers["Content-Security-Policy"] = self._policy(host)
            for name, value in HEADERS.items():
                response.headers[name] = value
            return response

        return answer

    def _host(self, request: Request) -> str | None:
        """The Host of a request, if it is one of ours."""
        given = request.headers.get_all("Host")
        if len(given) != 1:
            return None
        try:
            parts = urlsplit(f"http://{given[0]}")
            name, _ = parts.hostname or "", parts.port
            if parts.netloc != given[0] or "@" in given[0]:
                return None
            if name in self._names or ipaddress.ip_address(name):
                return given[0]
        except ValueError:
            pass
        return None

    def _brings_token(self, request: Request) -> bool:
        given = parse_qs(urlsplit(request.path).query).get("token", [""])[0]
        if given in self._tickets:
            self._tickets.discard(given)
            return True
        return self._right(given)

    def _shows_cookie(self, request: Request) -> bool:
        for header in request.headers.get_all("Cookie"):
            try:
                held = SimpleCookie(header)
            except CookieError:
                continue
            if self._cookie in held and self._right(held[self._cookie].value):
                return True
        return False

    def _right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode())

    def _policy(self, host: str) -> str:
        """What the page may do: run its own script and worker, talk to its own server, show its own pictures."""
        return "; ".join(
            [
                "default-src 'none'",
                f"script-src 'nonce-{self.nonce}' 'wasm-unsafe-eval'",
                "worker-src blob: data:",
                f"connect-src 'self' ws://{host} blob: data:",
                "img-src 'self' data: blob:",
                "style-src 'unsafe-inline'",
                "font-src data:",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
            ]
        )


def asked(request: Request) -> str:
    """The state that a link asks for, in letters that mean nothing to a browser; "" if there is none."""
    found = parse_qs(urlsplit(request.path).query).get("state", [""])[0]
    return found if LINK.fullmatch(found) else ""


def _place(request: Request, host: str) -> str:
    """Where a visit goes on: to a page whose WebSocket asks for the state that the link names."""
    state = asked(request)
    return f"/?websocket=ws://{host}/?state={state}" if state else "/"


LINK = re.compile(r"[A-Za-z0-9_=-]{1,6000}")  # a request may have 8192 bytes
COOKIE = "HttpOnly; SameSite=Strict; Path=/"
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def _refusal(why: str) -> Response:
    return _response(http.HTTPStatus.FORBIDDEN, f"{why[0].upper()}{why[1:]}.\n", {"Content-Type": "text/plain"})


def _response(status: http.HTTPStatus, text: str, headers: dict[str, str]) -> Response:
    from websockets.datastructures import Headers
    from websockets.http11 import Response

    body = text.encode()
    whole = {**headers, **HEADERS, "Content-Length": str(len(body)), "Connection": "close"}
    return Response(status.value, status.phrase, Headers(whole), body)
