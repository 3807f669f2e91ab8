"""Settings of all tests: examples that are the same everywhere, and no clock over them."""

from hypothesis import settings

# A busy machine is slow, not wrong; what a test must not exceed is pytest's own timeout.
settings.register_profile("motet", deadline=None, derandomize=True)
settings.load_profile("motet")
