"""What every request passes first: its id, its Host, its key, its size, and the time that its body takes."""

import asyncio
import hashlib
import hmac
import json
import re
import sys
import time
import uuid
from itertools import zip_longest
from typing import Any

from headway.serving.responses import RequestError, failed, invalid, refusal, unavailable
from headway.serving.state import USED, State

PUBLIC = ("/", "/health", "/ready", "/favicon.ico")
PUBLIC_FOLDER = "/playground/"
ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
SECURITY = {
    "content-security-policy": "default-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; object-src 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
ALLOWED = ("accept", "authorization", "content-type", "user-agent", "x-request-id")
"""Headers that pages of an allowed origin may send, besides those of OpenAI's clients that they ask for."""
OF_CLIENTS = re.compile(r"x-stainless-[a-z-]{1,40}|openai-(?:organization|project|beta)")
ROUTE = "headway.route"
"""Where a request keeps the route that answers it, as the server writes it."""
KEY = "headway.key"
"""Where it keeps the name of its key."""
COUNTED = "prompt_tokens", "completion_tokens"
EXPOSED = "x-request-id, retry-after"
CLOSE = {"connection": "close"}
Headers = dict[str, str]


class Gate:
    """A plain ASGI application around the routes; without a key it answers only what ``PUBLIC`` names."""

    def __init__(self, app: Any, state: State):
        self.app, self.state, self.settings = app, state, state.settings
        keys = self.settings.keys
        names = self.settings.key_names
        self._keys = [(name or number, _digest(key)) for number, (key, name) in enumerate(zip_longest(keys, names), 1)]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        began, prefix, path = time.monotonic(), self.settings.prefix, scope["path"]
        if prefix and f"{path}/".startswith(f"{prefix}/"):  # a proxy may also have removed it
            scope["path"] = path[len(prefix) :]
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        given = headers.get("x-request-id", "")
        about = {"x-request-id": given if ID.fullmatch(given) else uuid.uuid4().hex, **self._cors(headers)}
        status = 0

        async def sent(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = {name for name, _ in message["headers"]}
                more = {**SECURITY, **about}
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in more.items() if name.encode() not in own),
                ]
            await send(message)

        self.state.active += 1
        try:
            await self._passed(scope, headers, receive, sent)
        except RequestError as error:
            if not status:
                await refusal(error)(scope, receive, sent)
        except OSError:  # the client is gone
            pass
        except Exception:
            if not status:
                await refusal(failed("the server failed"))(scope, receive, sent)
            raise
        finally:
            self.state.active -= 1
            self._count(scope, about["x-request-id"], status or 499, time.monotonic() - began)

    async def _passed(self, scope: Any, headers: Headers, receive: Any, send: Any) -> None:
        """Let a request through, or raise RequestError."""
        size = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        if size + len(scope.get("raw_path", b"")) + len(scope.get("query_string", b"")) > self.settings.header_bytes:
            most = f"the headers are larger than {self.settings.header_bytes:,} bytes"
            raise self._reject("size", RequestError(431, most, headers=CLOSE))
        if not self.settings.allows_host(headers.get("host", "")):
            raise self._reject("host", invalid("this server is not called by that name (Host)", code="invalid_host"))
        path = scope["path"]
        if not path:  # the page's links are relative to the prefix with its slash
            from starlette.responses import RedirectResponse

            return await RedirectResponse(f"{self.settings.prefix}/")(scope, receive, send)
        if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            from starlette.responses import Response

            return await Response(status_code=204)(scope, receive, send)
        public = path in PUBLIC or path.startswith(PUBLIC_FOLDER)
        scope[KEY] = self._key(headers.get("authorization", ""))
        if self._keys and not public and scope[KEY] is None:
            words, bearer = "give a key: Authorization: Bearer KEY", {"www-authenticate": "Bearer"}
            raise self._reject("key", RequestError(401, words, "invalid_api_key", headers=bearer))
        if self.state.draining and scope["method"] == "POST":
            raise self._reject("draining", unavailable("the server is stopping"))
        if scope["method"] == "POST":
            self.state.check_place()
        body = await self._body(headers, receive)
        read = iter(({"type": "http.request", "body": body, "more_body": False},))

        async def again() -> Any:
            return next(read, None) or await receive()

        await self.app(scope, again, send)

    def _key(self, header: str) -> str | int | None:
        """The name or the number of the key that a header holds; it takes as long for every key."""
        kind, _, key = header.partition(" ")
        digest = _digest(key.strip())
        found = [name for name, one in self._keys if hmac.compare_digest(digest, one)]
        return found[0] if found and kind.lower() == "bearer" else None

    async def _body(self, headers: Headers, receive: Any) -> bytes:
        """The body, within its limits of size and time.  Raises RequestError."""
        most = self.settings.body_bytes
        too_large = RequestError(413, f"the body is larger than {most:,} bytes", "request_too_large", headers=CLOSE)
        length = headers.get("content-length", "")
        if length and "transfer-encoding" in headers:
            both = "a request has content-length or transfer-encoding, not both"
            raise self._reject("framing", RequestError(400, both, headers=CLOSE))
        if length.isdigit() and int(length[:20]) > most:
            raise self._reject("size", too_large)

        async def read() -> bytes:
            found = bytearray()
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionResetError
                found += message.get("body", b"")
                if len(found) > most:
                    raise self._reject("size", too_large)
                if not message.get("more_body", False):
                    return bytes(found)

        try:
            return await asyncio.wait_for(read(), self.settings.body_seconds)
        except TimeoutError:
            words = f"the body did not come within {self.settings.body_seconds:g} seconds"
            late = RequestError(408, words, "request_timeout", headers={**CLOSE, "x-should-retry": "false"})
            raise self._reject("slow", late) from None

    def _reject(self, reason: str, error: RequestError) -> RequestError:
        self.state.metrics.rejected.labels(reason).inc()
        return error

    def _cors(self, headers: Headers) -> Headers:
        """What lets a page of an allowed origin read the answer; nothing for others."""
        origin = headers.get("origin")
        if origin is None or origin not in self.settings.origins:
            return {"vary": "origin"} if self.settings.origins else {}
        asked = map(str.strip, headers.get("access-control-request-headers", "").lower().split(","))
        allowed = ", ".join([*ALLOWED, *(name for name in asked if OF_CLIENTS.fullmatch(name))])
        return {
            **{"access-control-allow-origin": origin, "vary": "origin", "access-control-allow-methods": "GET, POST"},
            **{"access-control-allow-headers": allowed, "access-control-expose-headers": EXPOSED},
            **{"cross-origin-resource-policy": "cross-origin"},
        }

    def _count(self, scope: Any, request_id: str, status: int, seconds: float) -> None:
        route = scope.get(ROUTE) or getattr(scope.get("route"), "path", None) or "other"
        method = scope["method"] if scope["method"] in ("GET", "POST", "HEAD", "OPTIONS") else "other"
        route = f"{method} {route}"  # as the server writes it, never what the client wrote
        if status == 429:
            self.state.metrics.rejected.labels("busy").inc()
        self.state.metrics.requests.labels(route, str(status)).inc()
        if self.settings.log:
            line = {"time": round(time.time(), 3), "request_id": request_id, "route": route, "status": status}
            used = dict(scope.get(USED, {}))
            usage = used.pop("usage", dict)()
            key = {} if scope.get(KEY) is None else {"key": scope[KEY]}
            more = {**key, **used, **{name: usage[name] for name in COUNTED if name in usage}}
            print(json.dumps({**line, "seconds": round(seconds, 4), **more}), file=sys.stderr, flush=True)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
