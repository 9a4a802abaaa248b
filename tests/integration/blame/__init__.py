"""Who is to blame: whatever a server says to one email or one class, the others are not delayed."""

import pytest

# Its assertions tell what differs, as those in a test's own file do.
pytest.register_assert_rewrite("tests.integration.blame.play")
