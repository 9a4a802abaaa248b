"""The alarm: whoever watches the outbox is told when its health turns."""
