"""Sphinx's settings. `make docs` builds the pages into `build/docs`; nothing is downloaded."""

from __future__ import annotations

import sys
from pathlib import Path

from outbox import __version__

project = "flask-mail-outbox"
author = "the authors of flask-mail-outbox"
version = release = __version__

sys.path.insert(0, str(Path(__file__).parent / "_sphinx"))  # value_fields.py
extensions = ["myst_parser", "pallets_sphinx_themes", "sphinx.ext.autodoc", "value_fields"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_sphinx"]
default_role = "code"  # docstrings have Markdown's backticks
suppress_warnings = [
    "myst.domains",  # those that the theme brings for Click and Jinja
    "myst.header",  # a page may begin a part with a smaller heading
]
nitpicky = True
# What other projects document: their pages are not read, because a build needs no network.
nitpick_ignore_regex = [
    ("py:.*", r"(?!outbox\.)\w+\..*"),
    (
        "py:.*",
        r"(datetime|Any|Callable|Connection|Engine|Flask|Iterable|Mapping|MetaData|Sequence)",
    ),
    # Our names of unions and functions, and types within the package: the text says what they are.
    ("py:class", r"(Access|Any\w+|Fields|URLs|Recipient|Redact|[A-Z]\w+Of\w*)"),
    ("py:class", r"outbox\.(domain|flask_ext|store|testing|worker)\..*"),
]

myst_heading_anchors = 3  # [a link](page.md#a-heading)

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80

html_theme = "flask"
html_title = project
html_static_path = ["_static"]
html_css_files = ["narrow.css"]
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {
    "index": ["project.html", "localtoc.html", "searchbox.html"],
    "**": ["localtoc.html", "relations.html", "searchbox.html"],
}
