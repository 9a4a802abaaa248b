"""`python -m tests.image [--own] [--readers 3000]`: build the image, run compose, kill, and check.

It uses the Docker engine that runs. With `--own`, root starts another engine, which needs no
registry: its base images are made from Debian's packages, under the names that the Dockerfile and
compose.yaml use. It exits with 2 and one line where neither is possible, and with 1 where a promise
is broken.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

from tests.image import engine
from tests.image.acts import ACTS, Stage
from tests.image.compose import copied
from tests.image.shop import Shop


def main() -> int:
    """Play all acts; return the exit status."""
    options = _options()
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        with ExitStack() as running:
            if options.own:
                running.enter_context(engine.own(options.data))
            engine.check()
            print(engine.version(), flush=True)
            if options.own:
                _make_bases()
            return _play(options.readers)
    except engine.NotAtHand as reason:
        print(f"The image was not run: {reason}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; everything has been ended", file=sys.stderr)
        return 130


def _play(readers: int) -> int:
    with TemporaryDirectory(prefix="outbox-image-") as folder, copied(Path(folder)) as compose:
        web, mailpit = compose.ports["WEB_PORT"], compose.ports["MAILPIT_PORT"]
        shop = Shop(
            web=f"http://127.0.0.1:{web}",
            mailpit=f"http://127.0.0.1:{mailpit}",
            env=compose.folder / ".env",
        )
        stage = Stage(compose=compose, shop=shop, readers=readers)
        for act in ACTS:
            try:
                print(f"ok    {act.__name__:8} {act(stage)}", flush=True)
            except Exception as error:  # noqa: BLE001  (whatever it is, it is shown)
                print(f"FAIL  {act.__name__:8} {act.__doc__}\n{type(error).__name__}: {error}")
                if (compose.folder / ".env").exists():
                    print(compose("logs", "--tail", "15"))
                return 1
    return 0


def _make_bases() -> None:
    from tests.image import bases  # it needs packages that a running engine does without

    began = time.monotonic()
    made = bases.make()
    print(f"made at home in {time.monotonic() - began:.0f} s: {', '.join(made) or 'nothing'}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.image")
    parser.add_argument("--own", action="store_true", help="start an engine of its own, as root")
    parser.add_argument("--data", type=Path, help="keep the own engine's images in this folder")
    parser.add_argument("--readers", type=int, default=3000, help="of the newsletter")
    return parser.parse_args()


def _interrupted(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
