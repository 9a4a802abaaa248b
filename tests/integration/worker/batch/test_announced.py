"""What is cut off in the middle of a batch, or announced and not sent, leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from outbox.domain.scheduling.token_bucket import Rate
from outbox.store.control.rate_limits import take
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.dialogue import Dialogue
from tests.support.servers.smtp.scripted import Step
from tests.support.servers.smtp.stateful import EXTENSIONS, StatefulServer
from tests.support.shop.shop import Shop, Shops, addresses, newsletter
from tests.support.shop.steps.motion import Motion, attempts, server, standing, write

pytestmark = pytest.mark.one_database("sqlite")

SENT, UNTOUCHED = ("sent", 1, 0, 0), ("pending", 0, 0, 0)
CANCELLED = ("cancelled", 0, 0, 0)
HOUR = 3600.0


def announced(happens: Callable[[], object]) -> Step:
    """Let something happen when the email that comes next has been announced."""

    def step(dialogue: Dialogue) -> None:
        while not dialogue.data.endswith(b"DATA\r\n"):
            dialogue.receive()
        happens()

    return step


def pipelining() -> StatefulServer:
    return StatefulServer(extensions=(*EXTENSIONS, "PIPELINING"))


def readers(server: StatefulServer) -> list[str]:
    return [mail.recipients[0] for mail in server.accepted]


def cancel(shop: Shop, email_id: int) -> None:
    with shop.session() as session:
        assert shop.outbox.cancel(id=email_id, session=session) == 1
        session.commit()


def use_up(shop: Shop, name: str) -> None:
    take(shop.database, {}, debts={name: (Rate(1, HOUR), 1)})


def test_an_announced_email_that_is_withdrawn_leaves_no_copy_and_the_next_is_not_sent_to_its_reader(
    shops: Shops,
) -> None:
    with pipelining() as smtp:
        shop = shops.open(MAIL_PORT=smtp.port, OUTBOX_WINDOW=2, OUTBOX_SLOTS=1)
        ids = write(shop, 4)
        smtp.unused["BODY 2"] = announced(partial(cancel, shop, ids[2]))
        Motion(shop=shop).beat()
        shop.runtime.disconnect()
    first, second, third, fourth = addresses(4)
    assert readers(smtp) == [first, second, fourth]
    assert any(third in line for line in smtp.dialogues[0].lines), "it was announced"
    assert standing(shop) == {SENT: 3, CANCELLED: 1}
    assert attempts(shop).total() == 3


@pytest.mark.parametrize("several", [False, True], ids=["of the lane", "of the server"])
def test_permits_that_end_in_the_middle_of_a_batch_charge_nobody_and_send_nobody_two(
    shops: Shops, several: bool
) -> None:
    with pipelining() as smtp, pipelining() as spare:
        servers = [server("a", smtp.port, rate="50/s"), server("b", spare.port, order=2)]
        config = {"OUTBOX_SERVERS": servers} if several else {"OUTBOX_RATE": "50/s"}
        shop = shops.open(
            **{"MAIL_PORT": smtp.port, "OUTBOX_WINDOW": 2, "OUTBOX_SLOTS": 1, **config}
        )
        write(shop, 8)
        bucket = "server:a" if several else "all"
        # In a route of several servers nothing is announced beyond its window.
        happens = partial(use_up, shop, bucket)
        smtp.unused["BODY 2"] = (lambda _: happens()) if several else announced(happens)
        motion = Motion(shop=shop)
        assert motion.beat() <= 2
        assert readers(smtp) == addresses(8)[:2]
        assert readers(spare) == (addresses(8)[2:] if several else [])
        assert standing(shop) == ({SENT: 8} if several else {SENT: 2, UNTOUCHED: 6})
        shop.later(HOUR + 1)
        motion.until_empty()
        shop.runtime.disconnect()
        assert standing(shop) == {SENT: 8}
        assert set((smtp.copies() + spare.copies()).values()) == {1}


def test_emails_of_a_rate_that_was_set_later_go_back_uncharged_and_the_rest_of_the_batch_goes(
    shops: Shops, catcher: Catcher
) -> None:
    before = shops.open(MAIL_PORT=catcher.port, OUTBOX_SLOTS=1)
    mixed = [to for n in range(3) for to in (f"{n}@gmail.com", f"{n}@x.example")]
    with before.session() as session:
        before.outbox.enqueue_many(newsletter(), mixed, session=session)
        session.commit()
    shop = shops.open(
        MAIL_PORT=catcher.port, OUTBOX_SLOTS=1, OUTBOX_DOMAIN_RATES={"gmail.com": "1/h"}
    )
    motion = Motion(shop=shop)
    assert motion.beat() <= 3
    assert standing(shop) == {SENT: 4, UNTOUCHED: 2}
    assert sum(mail.recipients[0].endswith("gmail.com") for mail in catcher.emails) == 1
    for _ in range(2):
        shop.later(HOUR)
        motion.beat()
    assert standing(shop) == {SENT: 6}
    assert set(catcher.copies().values()) == {1}


def test_of_a_batch_of_which_nothing_is_left_nothing_is_said_to_the_server(
    shops: Shops, catcher: Catcher
) -> None:
    shop = shops.open(MAIL_PORT=catcher.port)
    ids = write(shop, 3)
    motion = Motion(shop=shop)
    motion.sweep()
    for email_id in ids:
        cancel(shop, email_id)
    motion.work()
    assert motion.beat() == 0
    assert (catcher.emails, standing(shop)) == ((), {CANCELLED: 3})
    assert shop.count(shop.tables.lease) == 0
