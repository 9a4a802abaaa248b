"""Workers that wait for no lock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.integration.store.outages.locks import IMPATIENT
from tests.support.shop.shop import Shops


@pytest.fixture
def workers(database_url: str) -> Iterator[Shops]:
    """Opens shops whose connections wait for no lock."""
    url = sa.make_url(database_url)
    query = IMPATIENT[url.get_backend_name()]
    impatient = url.update_query_dict(query).render_as_string(hide_password=False)
    opened = Shops(url=impatient)
    yield opened
    opened.close()
