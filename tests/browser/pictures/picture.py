"""A picture of pages of ours, in `docs/images`."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from selenium.webdriver import Chrome

ROOT = Path(__file__).resolve().parents[3]
IMAGES = ROOT / "docs" / "images"
QUALITY = 82  # of 100


@dataclass(frozen=True, kw_only=True)
class Picture:
    """What it shows, and how it is taken."""

    name: str
    sources: tuple[str, ...]  # files and folders, from the root
    take: Callable[[Path], bytes]  # is given a folder for what it needs meanwhile

    @property
    def path(self) -> Path:
        """The picture's file."""
        return IMAGES / f"{self.name}.webp"

    @property
    def noted(self) -> Path:
        """The file that keeps the digest of the sources when it was taken."""
        return IMAGES / f"{self.name}.txt"

    def digest(self) -> str:
        """Return a digest of all that the picture shows."""
        total = hashlib.sha256()
        for source in self.sources:
            path = ROOT / source
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if file.is_file():
                    total.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
        return total.hexdigest() + "\n"

    def retake(self, folder: Path) -> None:
        """Take the picture anew."""
        self.path.write_bytes(self.take(folder))
        self.noted.write_text(self.digest())


def shot(browser: Chrome, width: int, height: int) -> bytes:
    """Return the page as a WebP, at one and a half times the density of its pixels."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1.5, "mobile": False},
    )
    browser.execute_script("document.documentElement.style.scrollbarWidth = 'none'")
    options = {"format": "webp", "quality": QUALITY}
    return base64.b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", options)["data"])
