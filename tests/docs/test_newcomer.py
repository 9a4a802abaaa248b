"""A newcomer stumbles over whatever is wrong in a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.newcomer import Newcomer
from tests.docs.ports import Ports

RIGHT = """\
```python
# greet.py
print("hello", 5 * 5)
```
```diff
--- greet.py
 # greet.py
-print("hello", 5 * 5)
+print("hello", 6 * 6)
```
```python
# add to greet.py
print("again")
```
```console
$ cat greet.py
# greet.py
print("hello", 6 * 6)
…
print(…)
$ python greet.py
hello 36
again
$ false  # exits 1
```
```toml
# settings.toml
a = 1
```
<!-- not run: it is an example -->
```sql
SELECT
```
"""


def _follow(tmp_path: Path, text: str) -> None:
    page, directory = tmp_path / "page.md", tmp_path / "fresh"
    page.write_text(text)
    directory.mkdir()
    with Newcomer(directory, Ports()) as newcomer:
        newcomer.follow(page)


def test_what_is_right_passes(tmp_path: Path) -> None:
    _follow(tmp_path, RIGHT)
    assert (tmp_path / "fresh" / "settings.toml").read_text() == "# settings.toml\na = 1\n"


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ("```console\n$ cat missing\n```", "exited 1"),
        ("```console\n$ echo one\ntwo\n```", "it printed:\none"),
        ("```console\n$ echo one\none\ntwo\n```", "it printed:\none"),
        ("```console\n$ true  # exits 1\n```", "exited 0"),
        ("```console\n$ pip install 'flask-mail-outbox[nothing]'\n```", "no such extra"),
        ("```console\n$ pip install flask-mailbox-out\n```", "is it a package"),
        ("```python\n1 / 0\n```", "ZeroDivisionError"),
        ("```pycon\n>>> 1 + 1\n3\n```", "Got:\n    2"),
        ("```python\n# broken.py\nthis is not\n```", "invalid syntax"),
        ("```diff\n--- greet.py\n-gone\n+here\n```", "greet.py has this 0 times"),
        ("```toml\na = \n```", "Invalid value"),
        ("```yaml\na: [\n```", "expected"),
        ("```sql\nSELECT\n```", "a block of sql: nothing runs it"),
        ("```\nSELECT\n```", "a block of no language: nothing runs it"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, block: str, told: str) -> None:
    text = f"```python\n# greet.py\n```\n\n{block}\n"
    with pytest.raises(Exception, match=r".") as raised:
        _follow(tmp_path, text)
    assert told in str(raised.value)
    assert raised.value.__notes__ == ["page.md, line 6"]
