"""The tools, one thin module a step: validate, call the engine, shape the answer.

`TOOLS` is the one list of them. The MCP server and the command line both call these functions, so that an agent and a
person get the same answer.
"""

from grpo_rlvr.tools.check import check_config, estimate_memory, picture_of_memory
from grpo_rlvr.tools.diagnose import picture_of_log, recommend_variant
from grpo_rlvr.tools.environment import check_environment
from grpo_rlvr.tools.read import reading_status, start_reading
from grpo_rlvr.tools.registry import Tool
from grpo_rlvr.tools.report import write_report
from grpo_rlvr.tools.run import launch_training, list_runs, run_logs, run_status, stop_run
from grpo_rlvr.tools.sample import sample_outputs, score_samples

# In the order of the five steps. At most 15, since every tool costs each client context.
TOOLS: tuple[Tool, ...] = (
    Tool(check_config, "Check a GRPO config"),
    Tool(estimate_memory, "Estimate GPU memory", picture=picture_of_memory),
    Tool(sample_outputs, "Sample outputs", read_only=False, open_world=True),
    Tool(score_samples, "Score samples", read_only=False),
    Tool(start_reading, "Start a reading", read_only=False),
    Tool(reading_status, "Reading and gate status"),
    Tool(launch_training, "Launch training", read_only=False, open_world=True),
    Tool(run_status, "Run status"),
    Tool(run_logs, "Run logs"),
    Tool(stop_run, "Stop a run", read_only=False, destructive=True, idempotent=True),
    Tool(list_runs, "List runs"),
    Tool(recommend_variant, "Diagnose a run", picture=picture_of_log),
    Tool(write_report, "Write a report", read_only=False, idempotent=True),
    Tool(check_environment, "Check the environment"),
)

__all__ = ["TOOLS", "Tool"]
