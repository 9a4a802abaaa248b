"""What emails are found by."""
