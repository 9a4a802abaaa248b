"""The pages of messages: the list, one message with its life and content, and what can be done."""
