"""What every test folder shares: reproducible property tests."""

import os

from hypothesis import HealthCheck, settings

# The CI machine is slow and shared: a test that takes long there is not wrong.
settings.register_profile(
    "quick", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
# Hypothesis then draws the same examples every time, so a red CI run is red on a laptop too.
settings.register_profile("ci", parent=settings.get_profile("quick"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "quick")
