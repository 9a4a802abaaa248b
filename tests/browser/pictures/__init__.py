"""The README's pictures, each with a digest of its sources: so a test can tell when it is old."""

from . import newsletter, overview

PICTURES = (newsletter.PICTURE, overview.PICTURE)
