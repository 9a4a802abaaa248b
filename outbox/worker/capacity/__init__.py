"""What the servers and the rates have room for: what a sweep may claim, and who gives way to it."""
