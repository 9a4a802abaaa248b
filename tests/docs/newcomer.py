"""A newcomer, who does what a page says and nothing else."""

from __future__ import annotations

import configparser
import json
import re
import socket
import tomllib
from pathlib import Path
from typing import Self, TextIO

import yaml

from tests.docs.blocks import Block, base_of, blocks_of
from tests.docs.look_ups import look_up
from tests.docs.ports import Ports
from tests.docs.terminal import PATIENCE, Terminal

TABLES = "flask --app shop init-db"

_MADE: dict[Path, dict[Path, bytes]] = {}
"""For each page that others begin with, the files that `TABLES` makes there, by their paths."""

PICTURES = frozenset({"text"})
"""Languages of drawings, and of what programs print."""


class Newcomer:
    """Follows a page in a fresh directory, with real servers.

    A context manager: at its end nothing of the page runs any more.
    """

    def __init__(self, directory: Path, ports: Ports) -> None:
        self.directory = directory
        self.ports = ports
        self.terminal = Terminal(directory, ports)
        self._interpreter: TextIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._interpreter is not None:
            self._interpreter.close()
        self.terminal.close()

    def follow(self, page: Path) -> None:
        """Do all that the page says, in its order."""
        if base := base_of(page):
            self._take_over(base)
        for block in blocks_of(page.read_text(encoding="utf-8")):
            if not block.excuse and not block.is_directive:
                try:
                    self._do(block)
                except Exception as error:
                    error.add_note(f"{page.name}, line {block.line}")
                    raise

    def _take_over(self, page: Path) -> None:
        """Have what somebody has who followed that page: its files, and the tables."""
        for block in blocks_of(page.read_text(encoding="utf-8")):
            if block.file or block.language == "diff":
                self._do(block)
            elif TABLES in block.text:
                self._make_tables(page)

    def _make_tables(self, page: Path) -> None:
        """Run the command for the first page that begins so; the others get a copy of its files."""
        if page not in _MADE:
            before = self._files()
            self.terminal.run(TABLES, [])
            made = self._files()
            _MADE[page] = {path: made[path] for path in made.keys() - before.keys()}
            assert _MADE[page], f"{TABLES} made no file"
        for path, content in _MADE[page].items():
            (self.directory / path).parent.mkdir(parents=True, exist_ok=True)
            (self.directory / path).write_bytes(content)

    def _files(self) -> dict[Path, bytes]:
        """Return what is in the directory, but for what Python compiled."""
        paths = (path for path in self.directory.rglob("*") if path.is_file())
        return {
            path.relative_to(self.directory): path.read_bytes()
            for path in paths
            if "__pycache__" not in path.parts
        }

    def _do(self, block: Block) -> None:
        text = self.ports.ours(block.text)
        if block.language == "diff":
            self._patch(text)
        elif block.language == "console":
            self._type(text)
        elif block.language in ("python", "pycon") and not block.file:
            self._interpret(block, text)
        elif block.language not in PICTURES:
            _check_syntax(block.language, text)
        if block.file and block.language != "diff":
            self._write(block, text)

    def _write(self, block: Block, text: str) -> None:
        path = self.directory / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text() if block.adds else ""
        path.write_text(before + text)

    def _patch(self, text: str) -> None:
        """Change a file as a diff without line numbers says: each part of it is there once."""
        first, *lines = (line for line in text.splitlines(keepends=True) if line[:4] != "+++ ")
        path = self.directory / first.removeprefix("--- ").strip()
        now = path.read_text()
        for part in re.split(r"^@@.*\n", "".join(lines), flags=re.MULTILINE):
            rows = part.splitlines(keepends=True)
            old = "".join(row[1:] or "\n" for row in rows if row[:1] != "+")
            new = "".join(row[1:] or "\n" for row in rows if row[:1] != "-")
            assert now.count(old) == 1, f"{path.name} has this {now.count(old)} times:\n{old}"
            now = now.replace(old, new)
        path.write_text(now)

    def _type(self, text: str) -> None:
        """Type the commands of a block, and compare what they print."""
        commands = re.split(r"^\$ ", text, flags=re.MULTILINE)
        assert commands[0] == "", f"output without a command: {commands[0]}"
        for each in commands[1:]:
            command, *shown = each.rstrip("\n").split("\n")
            while command.endswith("\\"):
                command = command[:-1] + shown.pop(0)
            if look_up(command):
                continue
            if command.startswith("cd "):
                self.terminal.directory /= command.removeprefix("cd ")
            elif found := re.fullmatch(r"export (\w+)=(\S*)", command):
                self.terminal.environment[found[1]] = found[2].strip("'\"")
            else:
                self.terminal.run(command, [self.ports.usual(line) for line in shown])

    def _interpret(self, block: Block, text: str) -> None:
        if self._interpreter is None:
            self._interpreter = self._start_interpreter()
        job = {"kind": block.language, "code": text, "name": f"<line {block.line}>"}
        self._interpreter.write(json.dumps(job) + "\n")
        self._interpreter.flush()
        line = self._interpreter.readline()
        assert line, "the interpreter has ended"
        answer = json.loads(line)
        assert not answer["wrong"], f"{answer['printed']}\n{answer['wrong']}"

    def _start_interpreter(self) -> TextIO:
        address = self.directory.parent / "interpreter"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(address))
            server.listen()
            server.settimeout(PATIENCE)
            self.terminal.start("tests.docs.interpreter", str(address))
            connection, _ = server.accept()
        connection.settimeout(PATIENCE)
        with connection:
            return connection.makefile("rw", encoding="utf-8")


def _check_syntax(language: str, text: str) -> None:
    match language:
        case "python":
            compile(text, "block", "exec")
        case "toml":
            tomllib.loads(text)
        case "yaml":
            list(yaml.safe_load_all(text))
        case "json":
            json.loads(text)
        case "ini":
            parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
            parser.read_string(text if "[" in text else f"[all]\n{text}")
        case "html" | "jinja" | "sh":
            assert text.strip()
        case _:
            raise AssertionError(f"a block of {language or 'no language'}: nothing runs it")
