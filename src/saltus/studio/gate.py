"""Gate: the studio on an address others can reach; lets through whoever brings the token, refuses everybody else."""

from __future__ import annotations

import asyncio
import hmac
import re
import threading
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from saltus.errors import BadValue

COOKIE = "saltus_token"
HEAD = 32_768  # bytes of a request's head at most
WAIT = 10.0  # s for a head


class Gate:
    """Listens on (host, port) and passes connections on to the loopback port of the studio.

    The first visit brings the token in the address and gets it as a cookie; every connection after that must show
    the cookie.
    """

    def __init__(self, host: str, port: int, behind: int, token: str) -> None:
        self.behind, self._token = behind, token
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="studio gate")
        self._thread.start()
        try:
            self._server = asyncio.run_coroutine_threadsafe(self._listen(host, port), self._loop).result(10)
        except OSError as problem:
            self._loop.call_soon_threadsafe(self._loop.stop)
            raise BadValue(f"cannot listen on {host}:{port}: {problem}; give an address of this machine") from problem
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def _listen(self, host: str, port: int) -> asyncio.Server:
        try:
            return await asyncio.start_server(self._visit, host, port, limit=HEAD)
        except OSError:
            return await asyncio.start_server(self._visit, host, 0, limit=HEAD)

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT)
            answer = self._answer(head.decode("latin-1"))
            if answer is not None:
                writer.write(answer.encode())
                await writer.drain()
                return
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.behind)
            inner_writer.write(_closing(head))
            await asyncio.gather(_pass(reader, inner_writer), _pass(inner_reader, writer))
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def _answer(self, head: str) -> str | None:
        """What to say to a visitor who is not let through; None lets him through."""
        line, *rest = head.split("\r\n")
        words = line.split(" ")
        target = urlsplit(words[1] if len(words) == 3 else "/")
        given = parse_qs(target.query).get("token", [""])[0]
        if given and self._right(given):
            return (
                f"HTTP/1.1 303 See Other\r\nLocation: /\r\nSet-Cookie: {COOKIE}={self._token}; HttpOnly; "
                "SameSite=Strict; Path=/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
        for header in rest:
            name, _, value = header.partition(":")
            if name.strip().lower() == "cookie":
                try:
                    held = SimpleCookie(value.strip())
                except CookieError:
                    continue
                if COOKIE in held and self._right(held[COOKIE].value):
                    return None
        text = "This studio needs its token: open the address that `saltus studio` printed.\n"
        return (
            f"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
            f"Connection: close\r\n\r\n{text}"
        )

    def _right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())

    def close(self) -> None:
        """Stop listening and end every connection."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        visits = asyncio.all_tasks() - {asyncio.current_task()}
        for visit in visits:
            visit.cancel()
        await asyncio.gather(*visits, return_exceptions=True)


def _closing(head: bytes) -> bytes:
    """The head of a plain request with one request a connection, so that each shows its cookie."""
    if re.search(rb"(?im)^upgrade:", head):
        return head
    return re.sub(rb"(?im)^connection:[^\r]*", b"Connection: close", head)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
