"""Serving over streamable HTTP: on loopback as it is, anywhere else only behind a token."""

import hmac
import ipaddress
import os
import sys
from typing import TYPE_CHECKING, Any

from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from grpo_rlvr.errors import InputError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

TOKEN_VARIABLE = "GRPO_RLVR_TOKEN"
MIN_TOKEN_CHARACTERS = 16


def is_loopback(host: str) -> bool:
    """Whether an address to bind is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve_http(server: MCPServer[Any], host: str, port: int, allowed_hosts: list[str]) -> None:
    """Serve until interrupted.

    Raises:
        InputError: a bind beyond loopback without a token.
    """
    import uvicorn

    token = os.environ.get(TOKEN_VARIABLE, "")
    application = http_application(server, host, token, allowed_hosts)
    print(f"grpo-rlvr: serving MCP on http://{host}:{port}/mcp", file=sys.stderr)
    uvicorn.run(application, host=host, port=port, log_level="warning")


def http_application(server: MCPServer[Any], host: str, token: str, allowed_hosts: list[str]) -> "ASGIApp":
    """Return the ASGI application, with Host and Origin checked and, when there is a token, the token checked.

    Raises:
        InputError: a bind beyond loopback without a token of at least 16 characters.
    """
    if not is_loopback(host) and len(token) < MIN_TOKEN_CHARACTERS:
        raise InputError(
            f"'{host}' is reachable from other machines, and there is no token",
            where="--host",
            remedy=f"Bind 127.0.0.1, or set {TOKEN_VARIABLE} to at least {MIN_TOKEN_CHARACTERS} secret characters.",
        )
    names = ["127.0.0.1", "localhost", "[::1]", *([] if host in {"0.0.0.0", "::"} else [host]), *allowed_hosts]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[entry for name in names for entry in (name, f"{name}:*")],
        allowed_origins=[f"{scheme}://{name}:*" for name in names for scheme in ("http", "https")],
    )
    application = server.streamable_http_app(transport_security=security, host=host)
    return _TokenCheck(application, token) if token else application


class _TokenCheck:
    """Lets only requests through that carry `Authorization: Bearer TOKEN`."""

    def __init__(self, application: "ASGIApp", token: str) -> None:
        self.application, self.expected = application, f"Bearer {token}".encode()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] == "http" and not hmac.compare_digest(self._given(scope), self.expected):
            from starlette.responses import PlainTextResponse

            refusal = PlainTextResponse(
                "A bearer token is needed.\n", status_code=401, headers={"WWW-Authenticate": "Bearer"}
            )
            await refusal(scope, receive, send)
            return
        await self.application(scope, receive, send)

    @staticmethod
    def _given(scope: "Scope") -> bytes:
        return next((value for name, value in scope["headers"] if name == b"authorization"), b"")
