"""Asking an OpenAI-compatible chat endpoint, with time limits and retries. Standard library only."""

import json
import os
import random
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from rlvr_rewards._core import RewardError, RewardSpecError

# A verdict is a few hundred tokens; a longer body is not one.
MAX_BODY_BYTES = 4_000_000
# Longest wait before a retry, in seconds, whatever the server asks for.
MAX_WAIT_SECONDS = 30.0
RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
REFUSED = frozenset({401, 403, 404, 405})


class JudgeEndpointError(RewardError, RuntimeError):
    """The endpoint refuses this client: a wrong key, address or model. No retry can mend it."""


class JudgeUnavailable(RewardError, RuntimeError):
    """The endpoint gave no usable answer within the retries."""


class JudgeRejected(RewardError, ValueError):
    """The endpoint answered that it cannot process this very request."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the judge wrote, and the name of the model that the server says it is."""

    text: str
    model: str


@dataclass(frozen=True, kw_only=True)
class JudgeClient:
    """An OpenAI-compatible endpoint and how to treat it.

    Args:
        base_url: Address up to and without `/chat/completions`, such as "http://127.0.0.1:8000/v1".
        model: The model's name at the endpoint; give a dated or hashed name where there is one.
        api_key_env: Name of the environment variable that holds the key; "" sends none. The key itself is never stored.
        timeout_s: Wall seconds for one attempt, reading the whole answer included.
        retries: Further attempts after the first.
        backoff_s: Wait before the first retry, in seconds; it doubles, with jitter, up to 30.
        concurrency: Requests in flight at a time.
        max_tokens: Longest verdict, in tokens.
        temperature: Sampling temperature of the judge.
    """

    base_url: str
    model: str
    api_key_env: str = ""
    timeout_s: float = 60.0
    retries: int = 4
    backoff_s: float = 0.5
    concurrency: int = 8
    max_tokens: int = 1024
    temperature: float = 0.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise RewardSpecError(f"client base_url must be an http or https address, not {self.base_url!r}")
        if not self.model or not isinstance(self.model, str):
            raise RewardSpecError("client model must name the judge model")
        for name, least in (
            ("timeout_s", 0.001),
            ("retries", 0),
            ("backoff_s", 0),
            ("concurrency", 1),
            ("max_tokens", 1),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
                raise RewardSpecError(f"client {name} must be a number of at least {least}, not {value!r}")

    def ask(self, messages: Sequence[Mapping[str, str]]) -> Reply:
        """Send one request, with retries, and return the reply.

        Raises:
            JudgeEndpointError: The endpoint refuses the client.
            JudgeRejected: The endpoint cannot process this request.
            JudgeUnavailable: No attempt gave an answer.
        """
        problem = "no attempt was made"
        for attempt in range(self.retries + 1):
            wait: float | None = None
            try:
                return _reply(self._post(messages))
            except urllib.error.HTTPError as error:
                problem = f"HTTP {error.code}"
                with error:
                    _raise_if_final(error, self.base_url, self.model)
                    wait = _retry_after(error.headers.get("Retry-After"))
            except (OSError, TimeoutError, ValueError) as error:
                problem = f"{type(error).__name__}: {error}"
            if attempt < self.retries:
                doubled = self.backoff_s * 2**attempt * (1 + random.random() / 4)
                time.sleep(min(MAX_WAIT_SECONDS, doubled if wait is None else wait))
        raise JudgeUnavailable(f"{self.base_url} gave no answer in {self.retries + 1} attempts; the last: {problem}")

    def _post(self, messages: Sequence[Mapping[str, str]]) -> Any:
        body = {
            "model": self.model,
            "messages": list(messages),
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
        }
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.api_key_env:
            key = os.environ.get(self.api_key_env, "")
            if not key:
                raise JudgeEndpointError(
                    f"environment variable {self.api_key_env} with the key of the judge is not set"
                )
            headers["Authorization"] = f"Bearer {key}"
        url = f"{self.base_url.rstrip('/')}/chat/completions"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
        deadline = time.monotonic() + self.timeout_s
        with _opener(self.base_url).open(request, timeout=self.timeout_s) as response:
            return json.loads(_read(response, deadline))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: they would send the key and the samples elsewhere."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def _opener(base_url: str) -> urllib.request.OpenerDirector:
    local = urlsplit(base_url).hostname in ("127.0.0.1", "localhost", "::1")
    proxies = [urllib.request.ProxyHandler({})] if local else []
    return urllib.request.build_opener(_NoRedirect, *proxies)


def _read(response: Any, deadline: float) -> bytes:
    """Read a body up to the deadline; a socket's own timeout starts anew with every byte."""
    chunks, size = [], 0
    while chunk := response.read1(65_536):
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise ValueError("the answer is too long")
        if time.monotonic() > deadline:
            raise TimeoutError("the answer came too slowly")
        chunks.append(chunk)
    return b"".join(chunks)


def _reply(body: Any) -> Reply:
    try:
        text = body["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise ValueError("the answer is no chat completion") from None
    if not isinstance(text, str):
        raise ValueError("the answer holds no text")
    return Reply(text, str(body.get("model") or ""))


def _raise_if_final(error: urllib.error.HTTPError, url: str, model: str) -> None:
    if error.code in REFUSED or 300 <= error.code < 400:
        raise JudgeEndpointError(f"{url} refuses model {model!r}: HTTP {error.code} {error.reason}") from None
    if error.code not in RETRIED:
        raise JudgeRejected(f"HTTP {error.code} {error.reason}") from None


def _retry_after(value: str | None) -> float | None:
    """Return the seconds a server asks to wait; a date is left to the usual backoff."""
    try:
        return max(0.0, float(value)) if value is not None else None
    except ValueError:
        return None
