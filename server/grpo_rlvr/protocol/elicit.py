"""The reading through the client's own forms, in both protocol eras.

Before 2026-07-28 the server asks in the middle of the call; from then on the call returns what it needs and the client
calls again with the answers. Every form is recorded when it arrives, so that a broken connection loses at most the one
form on the screen. A form that comes back declined, cancelled or empty counts as not read.
"""

import functools
import json
import time
from collections.abc import Callable
from typing import Any

import anyio.to_thread
from mcp.server.elicitation import render_elicitation_schema
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from pydantic import ValidationError

from grpo_rlvr.models.reading import ReadingRow, ReadingStarted
from grpo_rlvr.protocol.strict import guarded
from grpo_rlvr.workspace import Workspace

FIRST_MODERN = "2026-07-28"
# Clients give up after ten rounds a call; a person may also want to stop. The next call goes on where this one ended.
FORMS_PER_CALL = 9
REQUEST = "verdicts"


def offers_forms(ctx: Context[Any, Any]) -> bool:
    """Whether the client can show forms at all."""
    capabilities = ctx.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


async def read_by_forms(
    ctx: Context[Any, Any], workspace: Workspace, reading_id: str, rows_per_form: int
) -> ReadingStarted | InputRequiredResult:
    """Ask for verdicts form by form until all rows are read, a form is refused, or the call's share is used up.

    Raises:
        ToolError: the client offers no forms.
    """
    if not offers_forms(ctx):
        raise ToolError(
            "this client offers no forms (elicitation). Use channel 'page' or 'terminal', which the person opens."
        )
    session = _Session(ctx, workspace, reading_id, rows_per_form)
    if (ctx.protocol_version or "") >= FIRST_MODERN:
        return await session.modern_round()
    return await session.legacy_rounds()


class _Session:
    """One call's share of a reading."""

    def __init__(self, ctx: Context[Any, Any], workspace: Workspace, reading_id: str, rows_per_form: int) -> None:
        self.ctx, self.workspace, self.reading_id, self.rows_per_form = ctx, workspace, reading_id, rows_per_form
        info = ctx.session.client_params.client_info if ctx.session.client_params else None
        self.client = (info.name, info.version) if info else ("unknown client", "")

    async def legacy_rounds(self) -> ReadingStarted:
        """Ask in the middle of the call (handshake era)."""
        for _ in range(FORMS_PER_CALL):
            rows = await self._next_rows()
            if not rows:
                break
            asked = time.monotonic()
            try:
                answer = await self.ctx.session.elicit_form(
                    self._message(rows), self._schema(rows), related_request_id=self.ctx.request_id
                )
            except MCPError as error:
                raise ToolError(f"the client could not show the form: {error}. Use channel 'page'.") from error
            if not await self._take(rows, answer, time.monotonic() - asked):
                break
        return await self._report()

    async def modern_round(self) -> ReadingStarted | InputRequiredResult:
        """Take the answers of the round before, if any, and ask for the next ones."""
        state: dict[str, Any] = json.loads(self.ctx.request_state) if self.ctx.request_state else {"round": 0}
        if self.ctx.input_responses and "rows" in state:
            rows = [ReadingRow.model_validate(row) for row in state["rows"]]
            answer = self.ctx.input_responses.get(REQUEST)
            went_on = await self._take(
                rows, answer if isinstance(answer, ElicitResult) else None, time.time() - state["asked"]
            )
            if not went_on:
                return await self._report()
        rows = await self._next_rows() if state["round"] < FORMS_PER_CALL else []
        if not rows:
            return await self._report()
        form = ElicitRequestFormParams(message=self._message(rows), requested_schema=self._schema(rows))
        kept = {"round": state["round"] + 1, "rows": [row.model_dump() for row in rows], "asked": time.time()}
        return InputRequiredResult(input_requests={REQUEST: ElicitRequest(params=form)}, request_state=json.dumps(kept))

    async def _take(self, rows: list[ReadingRow], answer: ElicitResult | None, seconds: float) -> bool:
        """Record one answered form. Returns whether to go on asking."""
        from grpo_rlvr.inspection import form_for, record_form, record_refusal

        who = {"client_name": self.client[0], "client_version": self.client[1]}
        if answer is None or answer.action != "accept" or not answer.content:
            action = answer.action if answer else "no answer"
            reason = "empty" if action == "accept" else action
            await self._call(record_refusal, self.reading_id, self.workspace, reason, **who)
            return False
        try:
            answers = form_for(rows).model_validate(answer.content)
        except ValidationError:
            await self._call(record_refusal, self.reading_id, self.workspace, "invalid", **who)
            return False
        await self._call(record_form, self.reading_id, self.workspace, rows, answers, seconds=seconds, **who)
        return True

    async def _next_rows(self) -> list[ReadingRow]:
        from grpo_rlvr.inspection import next_rows

        found: list[ReadingRow] = await self._call(next_rows, self.reading_id, self.workspace, self.rows_per_form)
        return found

    async def _report(self) -> ReadingStarted:
        from grpo_rlvr.inspection import start_reading

        started: ReadingStarted = await self._call(start_reading, self.reading_id, self.workspace, "elicitation")
        return started

    def _schema(self, rows: list[ReadingRow]) -> dict[str, Any]:
        from grpo_rlvr.inspection import form_for

        return render_elicitation_schema(form_for(rows))

    def _message(self, rows: list[ReadingRow]) -> str:
        from grpo_rlvr.inspection import message_for

        return message_for(rows)

    async def _call(self, fn: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        return await anyio.to_thread.run_sync(functools.partial(guarded, fn, *arguments, **keywords))
