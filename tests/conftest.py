"""Generated examples are the same in every run: a new one is looked for on purpose, not met by chance in a release.

`scripts/test --hypothesis-profile explore tests/sandbox` draws new ones; what fails there becomes a case of its own.
"""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("repeatable")
