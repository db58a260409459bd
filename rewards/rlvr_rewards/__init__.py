"""Verifiers for reinforcement learning from verifiable rewards. Imports with nothing else installed."""
