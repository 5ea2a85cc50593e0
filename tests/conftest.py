"""What all tests share: how hypothesis runs."""

from hypothesis import settings

# A timing is never an assertion, and the machine may be busy.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")
