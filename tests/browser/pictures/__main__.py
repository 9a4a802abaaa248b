"""Takes the README's pictures anew: `python -m tests.browser.pictures [newsletter] [overview]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.browser.pictures import PICTURES


def main(names: list[str]) -> None:
    """Take the pictures with these names, or all."""
    for picture in PICTURES:
        if not names or picture.name in names:
            with tempfile.TemporaryDirectory() as folder:
                picture.retake(Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
