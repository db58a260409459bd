"""Arguments of every verb."""

import argparse
from typing import Any

from grpo_rlvr import __version__

STAGES = ("proof", "smoke", "full")


def parse(argv: list[str]) -> argparse.Namespace:
    """Return the options; `verb` names the function to call, as `module.name` of this package.

    Exits with 2 and a usage line on a mistake.
    """
    parser = argparse.ArgumentParser(
        prog="grpo-rlvr",
        description="From a verifiable task to a GRPO run that is worth its GPU hours: "
        "route, check, read, launch, diagnose.",
        epilog="Exit status: 0 fine, 1 findings or a closed gate, 2 your mistake; VERB --help says what 1 means there.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"grpo-rlvr {__version__}")
    verb_parsers = parser.add_subparsers(dest="name", required=True, metavar="VERB")
    for add in (_add_check_verbs, _add_sample_verbs, _add_run_verbs, _add_other_verbs):
        add(verb_parsers)
    options = parser.parse_args(argv)
    if getattr(options, "config_file", None) is not None:
        options.config = options.config_file
    return options


def _verb(
    parsers: Any, name: str, where: str, summary: str, *, one: str = "", json: bool = True
) -> argparse.ArgumentParser:
    """Add a verb; `one` says what its exit status 1 means, empty where it has none."""
    status = "Exit status: 0 fine, " + (f"1 {one}, " if one else "") + "2 your mistake, which standard error explains."
    parser: argparse.ArgumentParser = parsers.add_parser(
        name, help=summary, description=summary, epilog=status, allow_abbrev=False
    )
    parser.set_defaults(verb=where)
    parser.add_argument("--root", default=".", help="workspace folder (default: the current one)")
    if json:
        parser.add_argument("--json", action="store_true", help="print exactly what the tool returns")
    return parser


def _add_config(parser: argparse.ArgumentParser, *, required: bool) -> None:
    file = parser.add_mutually_exclusive_group(required=required)
    file.add_argument("config", nargs="?", metavar="FILE", help="JSON, YAML, training script or notebook")
    # Another destination: a positional that is absent would write its default over what the option stored.
    file.add_argument("--config", dest="config_file", metavar="FILE", help="the same, as an option")
    parser.add_argument("--setup", metavar="FILE", help="JSON or YAML with model, hardware, dataset, rewards, ...")
    parser.add_argument("--model", metavar="NAME", help="model.name of the setup: a name on the hub, or a folder")
    parser.add_argument("--gpu", metavar="NAME", help="hardware.gpu of the setup, such as H100")
    parser.add_argument("--gpus", type=int, metavar="N", help="hardware.gpus of the setup: how many")
    parser.add_argument("--trl-version", metavar="V", help="TRL version to judge for")


def _add_check_verbs(parsers: Any) -> None:
    check = _verb(
        parsers,
        "check",
        "verbs.check",
        "Check a GRPO config for its TRL version.",
        one="an error or a warning was found",
    )
    _add_config(check, required=True)
    check.add_argument(
        "--set", metavar="NAME=VALUE", nargs="+", action="extend", default=[],
        help="values that a script gets from its command line",
    )  # fmt: skip
    check.add_argument("--from-version", metavar="V", help="list the defaults that changed since this TRL version")
    check.add_argument(
        "--compare-versions", metavar="V", nargs="+", action="extend",
        help="further TRL versions, or all: a table of the releases in which it passes",
    )  # fmt: skip
    check.add_argument("--deep", action="store_true", help="also construct the real trainer on a tiny model")
    check.add_argument("--format", choices=("table", "json", "sarif", "github"), default="table")
    check.add_argument("--fix", action="store_true", help="write the safe fixes into the config file")
    memory = _verb(parsers, "memory", "verbs.memory", "Estimate GPU memory per phase.", one="it does not fit")
    _add_config(memory, required=False)
    memory.add_argument("--solve", action="store_true", help="find the largest batch, length and model that fit")
    memory.add_argument("--measure", action="store_true", help="run two real steps on this GPU and compare")
    memory.add_argument("--picture", metavar="FILE", help="write the bars as a PNG")
    explain = _verb(parsers, "explain", "verbs.explain", "Explain a rule by its id.", json=False)
    explain.add_argument("rule")


def _add_scored(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--samples", required=True, metavar="FILE", help="JSONL with prompt, completion and columns")
    parser.add_argument(
        "--reward", required=True, nargs="+", action="extend", metavar="SPEC",
        help="name, file.py:func, a JSON object, or a JSON or YAML file of specs",
    )  # fmt: skip
    parser.add_argument("--column", action="append", default=[], metavar="FROM=TO", help="rename a column")


def _add_sample_verbs(parsers: Any) -> None:
    sample = _verb(
        parsers,
        "sample",
        "verbs.sample",
        "Sample completions from a model in the background.",
        one="with --wait: the run did not finish",
    )
    sample.add_argument("--prompts", required=False, metavar="SOURCE", help="JSONL, parquet, datasets folder or hub id")
    sample.add_argument("--model", metavar="FOLDER", help="model folder or hub id")
    sample.add_argument(
        "--base-url", metavar="URL", help="OpenAI-compatible endpoint instead; then --model names its model"
    )
    sample.add_argument("--api-key-env", metavar="NAME", help="environment variable that holds the endpoint's key")
    sample.add_argument("--config", metavar="FILE", help="config whose sampling settings are used")
    sample.add_argument("--num-per-prompt", type=int, default=8)
    sample.add_argument("--limit", type=int)
    sample.add_argument("--seed", type=int, default=0)
    sample.add_argument("--resume", metavar="RUN")
    sample.add_argument("--wait", action="store_true", help="wait until it is done")
    score = _verb(
        parsers,
        "score",
        "verbs.score",
        "Run rewards over samples, attack them, and route.",
        one="a reward failed or the route is not GRPO",
    )
    _add_scored(score)
    score.add_argument("--config", metavar="FILE", help="config; num_generations and the completion cap are read")
    _add_scored(
        _verb(
            parsers,
            "audit",
            "verbs.audit",
            "Only attack rewards, with completions made from samples.",
            one="an attack did not hold",
        )
    )
    read = _verb(
        parsers,
        "read",
        "verbs.read",
        "Read scored samples (page or terminal), or list the readings.",
        one="the gate is closed",
    )
    read.add_argument("reading", nargs="?", help="id that score printed, or latest; without it all readings are listed")
    read.add_argument("--terminal", action="store_true", help="read here instead of on the page")
    read.add_argument("--status", action="store_true", help="only show how far the reading is")
    read.add_argument("--name", default="", help="who reads")
    read.add_argument("--no-browser", action="store_true", help="only print the page's address")
    judge = _verb(
        parsers,
        "calibrate",
        "judging.calibrate",
        "Measure a judge against a person's labels.",
        one="the judge is not good enough",
    )
    judge.add_argument("--judge", required=True, metavar="SPEC", help="reward spec of the judge: a JSON object or file")
    judge.add_argument("--labels", required=True, metavar="FILE", help="JSONL with prompt, completion and label")
    judge.add_argument("--record", metavar="FILE", help="where to write (default: the spec's 'calibration')")
    scaffold = _verb(
        parsers, "new-reward", "verbs.new_reward", "Write a reward of your own with cases and a test.", json=False
    )
    scaffold.add_argument("reward_name", metavar="NAME")


def _add_run_verbs(parsers: Any) -> None:
    launch = _verb(parsers, "launch", "verbs.launch", "Start a TRL run through the gate.", one="the launch was refused")
    launch.add_argument("spec", metavar="SPEC", nargs="?", help="JSON or YAML file")
    launch.add_argument("--resume", metavar="RUN", help="continue this run from its last checkpoint instead")
    launch.add_argument("--stage", choices=STAGES, default="proof")
    launch.add_argument("--dry-run", action="store_true")
    launch.add_argument("--waive", metavar="REASON", help="start 'full' without a green smoke; the reason is recorded")
    status = _verb(parsers, "status", "verbs.status", "Show a run.", one="the run failed or is lost")
    status.add_argument("run_id", metavar="RUN")
    status.add_argument("--watch", action="store_true", help="refresh until the run ends")
    logs = _verb(parsers, "logs", "verbs.logs", "Show a run's log.")
    logs.add_argument("run_id", metavar="RUN")
    logs.add_argument("--tail", type=int, default=100)
    logs.add_argument("--since", type=int, default=0)
    logs.add_argument("--grep", metavar="TEXT")
    stop = _verb(parsers, "stop", "verbs.stop", "Stop a run with a checkpoint.")
    stop.add_argument("run_id", metavar="RUN")
    runs = _verb(parsers, "runs", "verbs.runs", "List runs.")
    runs.add_argument("--limit", type=int, default=50)
    runs.add_argument("--offset", type=int, default=0, help="leave out the newest, for the next page")
    report = _verb(parsers, "report", "verbs.report", "Write an HTML report on a run.")
    report.add_argument("run_id", metavar="RUN")
    report.add_argument("--out", metavar="FILE")
    recommend = _verb(parsers, "recommend", "verbs.recommend", "Diagnose a run from its log.")
    recommend.add_argument("log", metavar="LOG", help="file or run folder, or - for standard input")
    recommend.add_argument("--config", metavar="FILE")
    recommend.add_argument("--setup", metavar="FILE")
    recommend.add_argument("--trl-version", metavar="V")
    recommend.add_argument("--compare-with", metavar="LOG", help="another run's log or folder")
    recommend.add_argument("--picture", metavar="FILE", help="write the curves as a PNG")


def _add_other_verbs(parsers: Any) -> None:
    serve = _verb(parsers, "serve", "serving.serve", "Serve the tools over MCP (stdio unless --http).", json=False)
    serve.add_argument("--http", action="store_true", help="streamable HTTP instead of stdio")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=8765)
    serve.add_argument(
        "--allowed-host", action="append", default=[], metavar="NAME", help="further Host header to accept"
    )
    doctor = _verb(
        parsers,
        "doctor",
        "verbs.doctor",
        "Look at interpreters, packages, GPUs and the sandbox.",
        one="something is missing",
    )
    doctor.add_argument("--python", metavar="PATH")
    demo = _verb(parsers, "demo", "serving.demo", "Run the whole loop on this machine's CPU.", json=False)
    demo.add_argument("--out", default="demo-output", metavar="FOLDER", help="workspace the demo makes")
    demo.add_argument("--fast", action="store_true", help="the same real steps with less training")
    demo.add_argument("--real", action="store_true", help="a real pretrained model (a 93 MB download)")
