"""Imports `random` so that every program finds it in one state; first of a worker's modules: others import it too."""

import os

_register, os.register_at_fork = os.register_at_fork, lambda **_: None  # else every child would be seeded anew
try:
    import random
finally:
    os.register_at_fork = _register


def seed() -> None:
    """Put the generator in the state in which all children find it."""
    random.seed(0)
