"""Sampling runs: real generation, resumable, from a folder or from a served model."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from grpo_rlvr.errors import InputError, NotFoundError
from grpo_rlvr.models.run import Endpoint, SampleRequest
from grpo_rlvr.runs import run_status, start_sampling
from grpo_rlvr.runs.sample_worker import finished_groups
from grpo_rlvr.runs.sampling import sampling_settings


def read_samples(workspace, status):
    text = (workspace.root / status.files["samples"]).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_samples_hold_prompt_completion_columns_and_groups(workspace, ended):
    request = SampleRequest(
        prompts="train.jsonl", model="tiny", num_per_prompt=3, limit=5, config={"max_completion_length": 6}
    )
    started = start_sampling(request, workspace)
    assert started.state == "starting" and started.kind == "sample"
    status = ended(started.run_id)
    assert status.state == "finished", status.log_tail
    rows = read_samples(workspace, status)
    assert [row["group"] for row in rows] == [g for g in range(5) for _ in range(3)]
    assert all(row["answer"] == row["prompt"][0] for row in rows)
    for row in rows:
        assert 1 <= len(row["completion_ids"]) <= 6
        assert row["finish_reason"] == ("stop" if row["completion_ids"][-1] == 1 else "length")
    assert len({row["completion"] for row in rows}) > 5, "the samples are all alike"
    assert (status.progress.done, status.progress.total, status.progress.unit) == (15, 15, "completions")


def test_chat_prompts_give_chat_completions_and_interrupted_sampling_goes_on(workspace, ended):
    prompts = [{"prompt": [{"role": "user", "content": f"a{n}="}], "answer": "a"} for n in range(4)]
    request = SampleRequest(
        prompts=prompts, model="tiny", num_per_prompt=2, batch_size=2, config={"max_completion_length": 4}
    )
    status = ended(start_sampling(request, workspace).run_id)
    samples = workspace.root / status.files["samples"]
    whole = read_samples(workspace, status)
    assert all(row["completion"][0]["role"] == "assistant" for row in whole)
    lines = samples.read_text(encoding="utf-8").splitlines(keepends=True)
    samples.write_text("".join(lines[:3]) + lines[3][:20], encoding="utf-8")
    again = start_sampling(SampleRequest(resume=status.run_id), workspace)
    assert again.run_id == status.run_id
    resumed = ended(status.run_id)
    assert (resumed.state, resumed.attempt) == ("finished", 2)
    assert read_samples(workspace, resumed) == whole, "a resumed sampling gives what an uninterrupted one gives"


def test_finished_groups_drops_an_incomplete_group_and_a_broken_line(tmp_path: Path):
    path = tmp_path / "samples.jsonl"
    rows = [{"group": g, "completion": str(i)} for g in range(3) for i in range(2)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:5]) + '{"group": 2, "com', encoding="utf-8")
    assert finished_groups(path, 2) == 2
    assert [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] == rows[:4]
    assert finished_groups(tmp_path / "none.jsonl", 2) == 0


class Served(BaseHTTPRequestHandler):
    """An OpenAI-compatible server that echoes; its first answer is 503, as of a server that still loads."""

    seen: ClassVar[list[dict]] = []
    failures = 1

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if type(self).failures:
            type(self).failures -= 1
            self.send_response(503)
            self.end_headers()
            return
        type(self).seen.append({**body, "path": self.path, "key": self.headers.get("Authorization")})
        text = f"answer to {body['prompt']}"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"choices": [{"text": text, "finish_reason": "length"}]}).encode())

    def log_message(self, *args):
        pass


def test_served_model_is_sampled_with_the_config_and_the_key_stays_out_of_every_file(workspace, ended, monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Served)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("MY_KEY", "secret-of-the-tests")
    request = SampleRequest(
        prompts=[{"prompt": "one", "n": 1}, {"prompt": "two", "n": 2}],
        endpoint=Endpoint(base_url=f"http://127.0.0.1:{server.server_port}/v1", model="served", api_key_env="MY_KEY"),
        num_per_prompt=2,
        config={"temperature": 0.7, "max_completion_length": 9},
    )
    status = ended(start_sampling(request, workspace).run_id)
    server.shutdown()
    assert status.state == "finished", status.log_tail
    rows = read_samples(workspace, status)
    assert [(row["completion"], row["n"]) for row in rows] == [("answer to one", 1)] * 2 + [("answer to two", 2)] * 2
    assert {row["finish_reason"] for row in rows} == {"length"}
    assert {(seen["temperature"], seen["max_tokens"], seen["path"]) for seen in Served.seen} == {
        (0.7, 9, "/v1/completions")
    }
    assert {seen["key"] for seen in Served.seen} == {"Bearer secret-of-the-tests"}
    assert len({seen["seed"] for seen in Served.seen}) == 4
    for path in workspace.store.rglob("*"):
        if path.is_file():
            assert b"secret-of-the-tests" not in path.read_bytes(), path


def test_unreachable_server_fails_the_run_with_its_address(workspace, ended, monkeypatch):
    monkeypatch.setenv("MY_KEY", "k")
    request = SampleRequest(
        prompts=[{"prompt": "one"}],
        endpoint=Endpoint(base_url="http://127.0.0.1:9/v1", model="m", api_key_env="NOT_SET_ANYWHERE"),
    )
    status = ended(start_sampling(request, workspace).run_id)
    assert status.state == "failed" and "NOT_SET_ANYWHERE" in status.message
    assert status.log_tail


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"prompts": "absent.jsonl"}, NotFoundError, "absent.jsonl"),
        ({"prompts": []}, InputError, "no prompts"),
        ({"prompts": [{"question": "x"}]}, InputError, "no 'prompt' column"),
        ({"model": None}, InputError, "either a model or an endpoint"),
        ({"model": "helper.py"}, InputError, "no config.json"),
        ({"config": {"temperature": "hot"}}, InputError, "temperature"),
        ({"config": {"max_completion_length": 0}}, InputError, "max_completion_length"),
    ],
)
def test_unusable_requests_are_refused_and_leave_no_run(workspace, changes, error, text):
    request = SampleRequest.model_validate({"prompts": "train.jsonl", "model": "tiny", **changes})
    with pytest.raises(error, match=text):
        start_sampling(request, workspace)
    assert not list(workspace.runs.glob("*")) if workspace.runs.exists() else True


def test_completion_cap_follows_the_trl_version():
    assert sampling_settings({}, "1.9.0")["max_completion_length"] == 256
    assert sampling_settings({}, "1.16.0")["max_completion_length"] == 512
    assert sampling_settings({"max_completion_length": 7}, "0.20.0")["max_completion_length"] == 7


def test_status_of_sampling_needs_its_own_workspace(workspace, tmp_path):
    with pytest.raises(NotFoundError, match="no run"):
        run_status("sample-20260101-000000-abcdef", workspace)
