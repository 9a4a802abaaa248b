"""Builds the image and runs compose.yaml on a real Docker engine: `python -m tests.image`."""
