"""The wheel and the sdist, built once, and an environment with the wheel and no extras."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.release.environments import ROOT, Environment, make, uv


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sdist, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("built")
    uv("build", "--quiet", "--out-dir", folder, ROOT)
    return folder


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    """The wheel."""
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    """An environment with the wheel, and nothing that it does not require."""
    environment = make(tmp_path_factory.mktemp("plain") / "env")
    environment.install(wheel)
    return environment
