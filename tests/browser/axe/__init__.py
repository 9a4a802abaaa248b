"""axe-core 4.14.1 by Deque Systems (MPL-2.0), as npm has it: it finds what hinders people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome

_SCRIPT = Path(__file__).with_name("axe.min.js")
_RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {iframes: false, resultTypes: ["violations"]}).then(
  (found) => done(found.violations), (error) => done([{id: String(error), nodes: []}]));
"""


def hindrances(browser: Chrome) -> list[str]:
    """Return what is wrong with the page that the browser shows: the rule, and where."""
    browser.execute_script(_SCRIPT.read_text("utf-8"))
    found: list[dict[str, Any]] = browser.execute_async_script(_RUN)
    return [
        f"{one['id']} ({one.get('impact')}): {node['html'][:120]}"
        for one in found
        for node in one["nodes"] or [{"html": ""}]
    ]
