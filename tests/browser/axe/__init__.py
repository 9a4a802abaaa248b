"""axe-core 4.14.1 by Deque Systems (MPL-2.0), as npm has it: it finds what hinders people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome

_SCRIPT = Path(__file__).with_name("axe.min.js")
_RUN = """
const [only, done] = arguments;
const rules = only.length ? {runOnly: {type: "rule", values: only}} : {};
axe.run(document, {iframes: false, resultTypes: ["violations"], ...rules}).then(
  (found) => done(found.violations), (error) => done([{id: String(error), nodes: []}]));
"""


OF_COLOURS = ("color-contrast", "link-in-text-block")
"""The rules that look at colours. All others look at what stands in the page, and where."""


def load(browser: Chrome) -> None:
    """Load it into the page that the browser shows."""
    browser.execute_script(_SCRIPT.read_text("utf-8"))


def hindrances(browser: Chrome, *rules: str) -> list[str]:
    """Return what is wrong with the page by these rules, or by all: the rule, and where."""
    found: list[dict[str, Any]] = browser.execute_async_script(_RUN, rules)
    return [
        f"{one['id']} ({one.get('impact')}): {node['html'][:120]}"
        for one in found
        for node in one["nodes"] or [{"html": ""}]
    ]
