"""The shop's own tables. Its emails are in the outbox's tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import DateTime, ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from .extensions import Base, db

if TYPE_CHECKING:
    Model = Base
else:
    Model = db.Model


def _now() -> datetime:
    return datetime.now(UTC)


class Product(Model):
    """Something to buy. The price is in cents."""

    __tablename__ = "shop_product"

    id: Mapped[int] = mapped_column(primary_key=True)
    slug: Mapped[str] = mapped_column(String(40), unique=True)  # also the name of its drawing
    name: Mapped[str] = mapped_column(String(80))
    blurb: Mapped[str] = mapped_column(String(200))
    price: Mapped[int]


class Order(Model):
    """A paid order; `checkout` is the form's id, so that a form sent twice orders once."""

    __tablename__ = "shop_order"

    id: Mapped[int] = mapped_column(primary_key=True)
    checkout: Mapped[str] = mapped_column(String(36), unique=True)
    product_id: Mapped[int] = mapped_column(ForeignKey(Product.id))
    quantity: Mapped[int]
    total: Mapped[int]
    name: Mapped[str] = mapped_column(String(80))
    email: Mapped[str] = mapped_column(String(320))
    placed_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), default=_now)

    product: Mapped[Product] = relationship(lazy="joined")

    @property
    def number(self) -> str:
        """The order number that customers see, such as `F-01042`."""
        return f"F-{1000 + self.id:05}"

    @property
    def tag(self) -> str:
        """The tag of its emails in the outbox."""
        return f"order-{self.id}"


class PasswordReset(Model):
    """A reset of a password; `request` is its id, made of the address and the time slot."""

    __tablename__ = "shop_password_reset"

    id: Mapped[int] = mapped_column(primary_key=True)
    request: Mapped[str] = mapped_column(String(36), unique=True)
    email: Mapped[str] = mapped_column(String(320))
    requested_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), default=_now)


class Newsletter(Model):
    """An issue of the newsletter; `draft` is the form's id, as with orders."""

    __tablename__ = "shop_newsletter"

    id: Mapped[int] = mapped_column(primary_key=True)
    draft: Mapped[str] = mapped_column(String(36), unique=True)
    subject: Mapped[str] = mapped_column(String(200))
    text: Mapped[str] = mapped_column(Text)
    readers: Mapped[int]
    posted_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), default=_now)

    @property
    def tag(self) -> str:
        """The tag of its emails in the outbox."""
        return f"newsletter-{self.id}"
