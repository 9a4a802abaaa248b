"""A state machine over the store: its assertions tell what differs."""

import pytest

pytest.register_assert_rewrite("tests.integration.machine.machine")
