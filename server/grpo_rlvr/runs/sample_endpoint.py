"""Completions from an OpenAI-compatible server. Standard library only."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

RETRIES = 4
RETRY_STATUS = frozenset({408, 409, 429, 500, 502, 503, 504})


class EndpointError(RuntimeError):
    """The server refused, or gave something else than a completion."""


def endpoint_generate(job: dict[str, Any]) -> Callable[[list[Any], int], list[dict[str, Any]]]:
    """Return a function that completes prompts through a server, several requests at a time."""
    endpoint, sampling = job["endpoint"], job["sampling"]

    def complete(item: tuple[int, Any]) -> dict[str, Any]:
        number, prompt = item
        chat = not isinstance(prompt, str)
        body = {
            "model": endpoint["model"],
            "temperature": sampling["temperature"],
            "top_p": sampling["top_p"],
            "max_tokens": sampling["max_completion_length"],
            "seed": (job["seed"] * 1_000_003 + number) % 2**31,
            **({"messages": prompt} if chat else {"prompt": prompt}),
        }
        # Only stated when set: servers of other makers refuse parameters that they do not know.
        if sampling["top_k"]:
            body["top_k"] = sampling["top_k"]
        if sampling["min_p"]:
            body["min_p"] = sampling["min_p"]
        if sampling["repetition_penalty"] != 1.0:
            body["repetition_penalty"] = sampling["repetition_penalty"]
        if chat and sampling.get("chat_template_kwargs"):
            body["chat_template_kwargs"] = sampling["chat_template_kwargs"]
        answer = _post(endpoint, "/chat/completions" if chat else "/completions", body)
        return _row(answer, chat)

    def generate(prompts: list[Any], first_group: int) -> list[dict[str, Any]]:
        per_group = int(job["num_per_prompt"])
        numbered = [(first_group * per_group + index, prompt) for index, prompt in enumerate(prompts)]
        with ThreadPoolExecutor(max_workers=int(endpoint.get("concurrency", 8))) as pool:
            return list(pool.map(complete, numbered))

    return generate


def _row(answer: dict[str, Any], chat: bool) -> dict[str, Any]:
    try:
        choice = answer["choices"][0]
        text = choice["message"]["content"] if chat else choice["text"]
    except (KeyError, IndexError, TypeError):
        raise EndpointError(f"the server's answer holds no completion: {json.dumps(answer)[:300]}") from None
    return {
        "completion": [{"role": "assistant", "content": text or ""}] if chat else text or "",
        "finish_reason": "length" if choice.get("finish_reason") == "length" else "stop",
    }


def _post(endpoint: dict[str, Any], path: str, body: dict[str, Any]) -> dict[str, Any]:
    url = endpoint["base_url"].rstrip("/") + path
    headers = {"Content-Type": "application/json"}
    variable = endpoint.get("api_key_env")
    if variable:
        key = os.environ.get(variable)
        if not key:
            raise EndpointError(f"environment variable {variable} is not set; it should hold the key of {url}")
        headers["Authorization"] = f"Bearer {key}"
    data = json.dumps(body).encode("utf-8")
    for attempt in range(RETRIES + 1):
        request = urllib.request.Request(url, data=data, headers=headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=float(endpoint.get("timeout_s", 120))) as response:
                answer = json.loads(response.read())
            if not isinstance(answer, dict):
                raise EndpointError(f"{url} answered something else than an object")
            return answer
        except urllib.error.HTTPError as error:
            detail = error.read(500).decode("utf-8", errors="replace")
            if error.code not in RETRY_STATUS or attempt == RETRIES:
                raise EndpointError(f"{url} answered {error.code}: {detail}") from None
        except (urllib.error.URLError, TimeoutError, ConnectionError, json.JSONDecodeError) as error:
            if attempt == RETRIES:
                raise EndpointError(f"{url} cannot be reached: {error}") from None
        time.sleep(min(8.0, 0.5 * 2**attempt))
    raise EndpointError(f"{url} cannot be reached")
