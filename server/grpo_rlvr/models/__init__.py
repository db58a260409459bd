"""Pydantic inputs and outputs of the tools, one module a step. The CLI's `--json` prints exactly these."""
