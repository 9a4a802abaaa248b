"""What every message broker of the tests can do, beside living and dying."""

from abc import abstractmethod

from tests.support.servers.server import Server


class Broker(Server):
    """A server between those who publish tasks and the workers who run them."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The address for Celery's `broker_url`."""

    @abstractmethod
    def empty(self) -> None:
        """Lose every message and every queue, under whoever is connected."""

    @abstractmethod
    def waiting(self) -> int:
        """Return how many messages wait for a worker in the outbox's queues."""
