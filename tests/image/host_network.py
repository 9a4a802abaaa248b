"""Leaves the host's network as it was: Docker makes a bridge and rules, and closes forwarding."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BRIDGE = Path("/sys/class/net/docker0")
FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
TABLES = {
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
    "raw": ("PREROUTING", "OUTPUT"),
}
"""The tables that Docker writes to, with the chains that each has by itself."""


@contextmanager
def restored() -> Iterator[None]:
    """Restore the rules, the bridge and forwarding at the end, unless another engine is there."""
    if BRIDGE.exists():
        yield
        return
    tools = [tool for tool in ("iptables", "ip6tables") if shutil.which(tool)]
    rules, forward = {tool: _rules(tool) for tool in tools}, FORWARD.read_text()
    try:
        yield
    finally:
        for tool, text in rules.items():
            subprocess.run([f"{tool}-restore"], input=text, text=True, check=False)
        FORWARD.write_text(forward)
        if BRIDGE.exists():
            subprocess.run(["ip", "link", "delete", BRIDGE.name], check=False)


def _rules(tool: str) -> str:
    """Return the rules as the tool reads them; a table without rules is listed as empty."""
    command = [f"{tool}-save"]
    saved = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    for table, chains in TABLES.items():
        if f"*{table}\n" not in saved:
            saved += f"*{table}\n" + "".join(f":{chain} ACCEPT\n" for chain in chains) + "COMMIT\n"
    return saved
