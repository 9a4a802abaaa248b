"""Runs a page's Python, block after block, in one process: `python -m tests.docs.interpreter FILE`.

It connects to the Unix socket FILE. Each line that comes is a block as JSON, and each answer is
what the block printed and what went wrong. The names of the directory's `shop.py` are at hand, and
the app's context is there, as in `flask shell`.
"""

from __future__ import annotations

import doctest
import importlib
import io
import json
import socket
import sys
import traceback
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

SHOP = "shop"


def main(address: str) -> None:
    """Answer until the other side has gone."""
    names: dict[str, Any] = {"__name__": "__main__"}
    if Path(f"{SHOP}.py").exists():
        _open(names)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        with connection.makefile("rw", encoding="utf-8") as lines:
            for line in lines:
                lines.write(json.dumps(_answer(json.loads(line), names)) + "\n")
                lines.flush()


def _open(names: dict[str, Any]) -> None:
    shop = importlib.import_module(SHOP)
    names |= {name: value for name, value in vars(shop).items() if not name.startswith("_")}
    app = names["create_app"]() if "create_app" in names else names["app"]
    names["app"] = app
    app.app_context().push()


def _answer(job: dict[str, str], names: dict[str, Any]) -> dict[str, str]:
    printed = io.StringIO()
    wrong = ""
    with redirect_stdout(printed):
        try:
            wrong = _examples(job, names) if job["kind"] == "pycon" else _block(job, names)
        except BaseException:  # noqa: BLE001  (the page's test is told of each)
            wrong = traceback.format_exc()
    return {"printed": printed.getvalue(), "wrong": wrong}


def _block(job: dict[str, str], names: dict[str, Any]) -> str:
    exec(compile(job["code"], job["name"], "exec"), names)
    return ""


def _examples(job: dict[str, str], names: dict[str, Any]) -> str:
    """Run the examples, and compare what they show; return the differences."""
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    code = job["code"].replace("…", doctest.ELLIPSIS_MARKER)
    test = doctest.DocTestParser().get_doctest(code, names, job["name"], job["name"], 0)
    told = io.StringIO()
    runner = doctest.DocTestRunner(verbose=False, optionflags=options)
    runner.run(test, out=told.write, clear_globs=False)
    names |= test.globs
    return told.getvalue()


if __name__ == "__main__":
    main(sys.argv[1])
