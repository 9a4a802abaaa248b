"""What is done with the image and with compose, act by act; each checks its promise."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.image.compose import Compose
from tests.image.shop import Shop
from tests.support.waiting import wait_until

WORKERS, PROCESSES, WINDOW = 4, 2, 20
HARD_PASSWORD = "p@ss:w/o%rd?#"
DRAINED = 300.0
BUYER = "christos@example.com"
DOUBTED = """
SELECT email.recipient, count(*) FROM outbox_attempt AS attempt
JOIN outbox_email AS email ON email.id = attempt.email_id WHERE verdict = 'unknown' GROUP BY 1
"""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What the acts play with."""

    compose: Compose
    shop: Shop
    readers: int


def secrets(stage: Stage) -> str:
    """`make .env` makes random secrets, and never a second time."""
    env = stage.compose.folder / ".env"
    stage.compose.run("make", ".env")
    made = env.read_text()
    stage.compose.run("make", ".env")
    assert env.read_text() == made
    assert len(set(re.findall(r"=([0-9a-f]{48})$", made, re.MULTILINE))) == 5
    assert env.stat().st_mode & 0o077 == 0
    env.write_text(re.sub("(?<=^DATABASE_PASSWORD=).*", HARD_PASSWORD, made, flags=re.MULTILINE))
    return f"made once, kept the second time; then the password is {HARD_PASSWORD}"


def build(stage: Stage) -> str:
    """The image is built; a change of the sources installs no package again."""
    first, _ = stage.compose.timed("build")
    with (stage.compose.folder / "outbox" / "__init__.py").open("a") as source:
        source.write("# changed\n")
    again, printed = stage.compose.timed("build")
    step = re.findall(r"^#(\d+) \[.*build \d+/\d+\] RUN .*pip install", printed, re.MULTILINE)
    assert step, printed
    assert f"#{step[0]} CACHED" in printed, "the packages were installed again"
    return f"{first:.0f} s; after a change of the sources {again:.0f} s, the packages cached"


def start(stage: Stage) -> str:
    """`up --build` starts four workers, and all become healthy."""
    seconds, _ = stage.compose.timed("up", "--build", "--detach")
    healthy = stage.compose.wait_healthy()
    assert _running(stage) == WORKERS
    (migrate,) = stage.compose.containers("migrate")
    assert migrate["State"]["ExitCode"] == 0
    return f"{seconds:.0f} s, {WORKERS} workers, all healthy {healthy:.0f} s later"


def rights(stage: Stage) -> str:
    """The shop's role is no superuser, and its containers have few rights."""
    role = stage.compose.sql(
        "SELECT rolsuper, rolcreaterole, rolconfig FROM pg_roles WHERE rolname = 'shop'"
    )
    assert role == [["f", "f", "{idle_in_transaction_session_timeout=1min}"]]
    for service in ("web", "worker", "beat", "flower"):
        for container in stage.compose.containers(service):
            assert container["Config"]["User"] == "10001:10001"
            host = container["HostConfig"]
            assert host["ReadonlyRootfs"]
            assert host["CapDrop"] == ["ALL"]
            assert host["LogConfig"]["Config"] == {"max-size": "10m", "max-file": "5"}
    return "the role owns its database only; user 10001, read-only, no capability, logs rotate"


def health(stage: Stage) -> str:
    """A health check costs next to nothing, and a silent Redis makes no worker sick."""
    (worker, *_) = stage.compose.containers("worker")
    check = worker["Config"]["Healthcheck"]["Test"][-1]
    ten = f"for i in 0 1 2 3 4 5 6 7 8 9; do {check} || exit 1; done; times"
    printed = stage.compose("exec", "-T", "worker", "bash", "-c", ten)
    cost = sum(int(m) * 60 + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", printed)) / 10
    stage.compose("pause", "redis")
    try:
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > 25, 30, "25 seconds")
        sick = [c for c in stage.compose.unhealthy() if "worker" in c or "beat" in c]
    finally:
        stage.compose("unpause", "redis")
    assert sick == []
    assert cost < 0.1
    return f"{cost * 1000:.1f} ms of CPU each; none is sick after Redis has been silent for 25 s"


def commands(stage: Stage) -> str:
    """`flask outbox` runs in a container, and `check` finds nothing wrong."""
    flask = ("exec", "-T", "web", "flask", "--app", "webapp", "outbox")
    found = stage.compose(*flask, "check")
    assert "the schema is complete" in found, found
    assert "oldest due email" in stage.compose(*flask, "stats")
    return f"`check` found nothing wrong in {len(found.splitlines())} points"


def order(stage: Stage) -> str:
    """An order's email arrives with its invoice, which needs fonts and a place for them."""
    before = stage.shop.received()
    began = time.monotonic()
    stage.shop.order("Χρήστος Παπαδόπουλος", BUYER)
    wait_until(lambda: stage.shop.received() > before, 60, "the order's email")
    assert stage.shop.copies()[BUYER] == 1
    return f"its email arrived {time.monotonic() - began:.1f} s after the form was opened"


def kills(stage: Stage) -> str:
    """A newsletter arrives although two of four workers are killed while it is sent."""
    before = stage.shop.received()
    began = time.monotonic()
    issue = stage.shop.post_newsletter(stage.readers)
    for worker, part in ((0, 0.1), (1, 0.4)):
        least = before + part * stage.readers
        wait_until(lambda: stage.shop.received() >= least, DRAINED, "the first emails")  # noqa: B023
        name = stage.compose.containers("worker")[worker]["Name"].lstrip("/")
        stage.compose.run("docker", "kill", name)
        assert not stage.shop.progress(issue)["done"], "it was over before the kill"
    numbers = stage.shop.wait_done(issue, DRAINED)
    seconds = time.monotonic() - began
    assert numbers["sent"] == stage.readers, numbers
    twice = _audit(stage, newsletters=1, kills=2)
    return f"{stage.readers} sent in {seconds:.0f} s with 2 kills; twice: {twice}"


def again(stage: Stage) -> str:
    """`up` brings the killed back to four, and neither it nor `up --build` recreates anything."""
    before = _ids(stage)
    stage.compose("up", "--detach")
    assert _running(stage) == WORKERS
    stage.compose("up", "--build", "--detach")
    stage.compose.wait_healthy()
    assert _ids(stage) == before, "containers were made anew"
    assert _running(stage) == WORKERS
    return f"{len(before)} containers kept, {WORKERS} workers"


def stop(stage: Stage) -> str:
    """Workers that are stopped in a newsletter end well, and bring nothing into doubt."""
    doubted = stage.compose.sql(DOUBTED)
    before = stage.shop.received()
    issue = stage.shop.post_newsletter(stage.readers)
    least = before + stage.readers // 10
    wait_until(lambda: stage.shop.received() >= least, DRAINED, "the first emails")
    seconds, _ = stage.compose.timed("stop", "worker")
    assert not stage.shop.progress(issue)["done"], "it was over before the stop"
    assert [c["State"]["ExitCode"] for c in stage.compose.containers("worker")] == [0] * WORKERS
    stage.compose("up", "--detach")
    stage.shop.wait_done(issue, DRAINED)
    assert sorted(stage.compose.sql(DOUBTED)) == sorted(doubted)
    _audit(stage, newsletters=2, kills=2)
    return f"4 workers stopped in {seconds:.1f} s, each with status 0; the rest went out later"


def down(stage: Stage) -> str:
    """`down` has to kill nothing, and `up` finds the database and the secrets again."""
    sent = stage.compose.sql("SELECT count(*) FROM outbox_email WHERE status = 'sent'")
    env = (stage.compose.folder / ".env").read_text()
    seconds, _ = stage.compose.timed("stop")
    ended = {c["Name"]: c["State"]["ExitCode"] for c in stage.compose.containers()}
    assert set(ended.values()) == {0}, ended
    stage.compose("down")
    stage.compose.run("make", ".env")
    assert (stage.compose.folder / ".env").read_text() == env
    stage.compose("up", "--detach")
    stage.compose.wait_healthy()
    assert stage.compose.sql("SELECT count(*) FROM outbox_email WHERE status = 'sent'") == sent
    return f"all stopped by themselves in {seconds:.1f} s; `up` finds {sent[0][0]} sent emails"


ACTS: tuple[Callable[[Stage], str], ...] = (
    secrets, build, start, rights, health, commands, order, kills, again, stop, down,
)  # fmt: skip


def _running(stage: Stage) -> int:
    return sum(bool(c["State"]["Running"]) for c in stage.compose.containers("worker"))


def _ids(stage: Stage) -> set[str]:
    return {str(container["Id"]) for container in stage.compose.containers()}


def _audit(stage: Stage, *, newsletters: int, kills: int) -> str:
    """Check that each reader has each issue once, or twice where it was in doubt; count those."""
    copies = stage.shop.copies()
    del copies[BUYER]
    assert len(copies) == stage.readers, "a reader has nothing"
    assert min(copies.values()) >= newsletters, "an email is lost"
    doubted = dict(stage.compose.sql(DOUBTED))
    twice = {to: number - newsletters for to, number in copies.items() if number > newsletters}
    assert all(more <= int(doubted.get(to, 0)) for to, more in twice.items()), "sent twice"
    assert len(doubted) <= kills * PROCESSES * WINDOW
    return f"{len(twice)} of {len(doubted)} in doubt"
