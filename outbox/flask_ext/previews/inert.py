"""Takes out of an HTML part what connects a browser to other hosts, whatever the policy forbids.

A content security policy keeps a browser from asking for anything. But for a link of `preconnect`
or `dns-prefetch`, and for the `src` of a frame, Chromium connects to the host, or looks its name
up, before it looks at the policy. The name alone may tell the sender who reads the message.
"""

from __future__ import annotations

import re

_CONNECTS = re.compile(r"<(?=(?:link|i?frame)\b)", re.IGNORECASE)
"""What begins such an element. Under the policy none of them shows or loads anything."""


def inert(html: str) -> str:
    """Return the HTML with these elements under names that no browser knows."""
    return _CONNECTS.sub("<inert-", html)
