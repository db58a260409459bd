"""Validating MCP server, CLI and engines for GRPO / RLVR training on Hugging Face TRL."""

__version__ = "0.1.0"
