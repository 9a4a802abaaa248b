"""The shop: an order and its confirmation email are written together, or neither is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flask import Blueprint, Response, abort, redirect, render_template, request, session, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from outbox import EmailSummary, InvalidMessage

from .. import messages
from ..extensions import db, outbox
from ..invoices.invoice import invoice
from ..limits import (
    INVOICES_OF_A_CLIENT,
    ORDERS_OF_A_CLIENT,
    ORDERS_TO_AN_ADDRESS,
    address,
    limiter,
)
from ..models import Order, Product
from . import forms
from .statuses import UNFINISHED

bp = Blueprint("shop", __name__)

LISTED = 50
"""Orders that a browser's cookie remembers. There are no accounts: nobody sees another's orders."""


class PaymentError(Exception):
    """The bank declined the payment."""


@dataclass(frozen=True, kw_only=True)
class Checkout:
    """The values of a filled order form."""

    id: str
    product: Product
    quantity: int
    name: str
    email: str
    card: str

    @classmethod
    def read(cls, form: Mapping[str, str]) -> Checkout:
        """Return the form's values, or raise FormError."""
        slug = forms.line(form, "product", "Your choice", most=40)
        product = db.session.scalar(select(Product).where(Product.slug == slug))
        if product is None:
            raise forms.FormError("Please choose one of the goods.")
        return cls(
            id=forms.form_id(form, "checkout"),
            product=product,
            quantity=forms.number(form, "quantity", "The quantity", least=1, most=99),
            name=forms.line(form, "name", "Your name", most=80),
            email=forms.line(form, "email", "Your e-mail address", most=forms.LONGEST_ADDRESS),
            card=form.get("card", ""),
        )


@bp.get("/")
def index() -> ResponseReturnValue:
    """Show the goods and an empty order form."""
    return _page({})


@bp.post("/orders")
@limiter.limit(ORDERS_OF_A_CLIENT)
@limiter.limit(ORDERS_TO_AN_ADDRESS, key_func=address)
def place_order() -> ResponseReturnValue:
    """Take an order: its row and its email are written together, or neither is.

    Without a payment neither is. The bank is outside of the transaction: if the commit fails after
    the payment, the visitor has paid, and sends the form again. The bank knows the form's id then.
    """
    try:
        checkout = Checkout.read(request.form)
        order = placed(checkout.id) or place(checkout)
    except forms.FormError as error:
        return _page(request.form, problem=str(error)), 400
    except InvalidMessage as error:
        db.session.rollback()
        if error.field != "recipients":  # it is the shop's own fault
            raise
        return _page(
            request.form,
            problem=f"We cannot write to that address. The outbox says: “{error.rule}”.",
        ), 400
    except PaymentError:
        db.session.rollback()
        return _page(request.form, declined=True), 402
    _remember(order)
    return redirect(url_for("shop.order", order_id=order.id), code=303)


def place(checkout: Checkout) -> Order:
    """Write the order and its confirmation in one transaction."""
    order = Order(
        checkout=checkout.id,
        product=checkout.product,
        quantity=checkout.quantity,
        total=checkout.quantity * checkout.product.price,
        name=checkout.name,
        email=checkout.email,
    )
    db.session.add(order)
    try:
        db.session.flush()  # gives the order its number
    except IntegrityError:  # the same form was sent twice, and the other request was faster
        db.session.rollback()
        rival = placed(checkout.id)
        if rival is None:
            raise
        return rival
    outbox.enqueue(messages.confirmation(order), key=f"order:{checkout.id}", tag=order.tag)
    charge(checkout.card, order.total, key=checkout.id)
    db.session.commit()
    return order


def placed(checkout_id: str) -> Order | None:
    """Return the order that this form has placed already, or None."""
    return db.session.scalar(select(Order).where(Order.checkout == checkout_id))


def charge(card: str, cents: int, *, key: str) -> None:  # noqa: ARG001  (a real one takes them)
    """Stand in for a payment service; the form's second card is always declined.

    A service takes the money only once for a `key`. A real one may take seconds: reserve the money
    before the transaction begins, and capture it after the commit, so that nobody waits for a lock.
    """
    if card == "declined":
        raise PaymentError


@bp.get("/orders")
def orders() -> ResponseReturnValue:
    """List the newest orders of this browser."""
    mine = select(Order).where(Order.id.in_(_mine())).order_by(Order.id.desc())
    return render_template("shop/orders.html", orders=db.session.scalars(mine).all(), listed=LISTED)


@bp.get("/orders/<int(max=2147483647):order_id>")
def order(order_id: int) -> ResponseReturnValue:
    """Show one order, the state of its confirmation, and the way to it."""
    found = _own(order_id)
    email = email_of(found)
    details = None if email is None else outbox.get(email.id)
    return render_template("shop/order.html", order=found, email=details)


@bp.get("/orders/<int(max=2147483647):order_id>/email")
def order_email(order_id: int) -> ResponseReturnValue:
    """Return the state of the confirmation, for the page's script."""
    email = email_of(_own(order_id))
    status = None if email is None else email.status
    return {"email": status, "done": status not in UNFINISHED}


@bp.get("/orders/<int(max=2147483647):order_id>/invoice")
@limiter.limit(INVOICES_OF_A_CLIENT)
def order_invoice(order_id: int) -> ResponseReturnValue:
    """Return the invoice, as the confirmation has it attached."""
    found = _own(order_id)
    response = Response(invoice(found), mimetype="application/pdf")
    name = f"Invoice {found.number}.pdf"
    response.headers.set("Content-Disposition", "attachment", filename=name)
    return response


def email_of(order: Order) -> EmailSummary | None:
    """Return the order's email; None after it was purged."""
    return next(iter(outbox.list(tag=order.tag, limit=1)), None)


def _own(order_id: int) -> Order:
    """Return an order of this browser. Any other one does not exist for it."""
    if order_id not in _mine():
        abort(404)
    return db.get_or_404(Order, order_id)


def _mine() -> list[int]:
    return list(session.get("orders", ()))


def _remember(order: Order) -> None:
    others = [order_id for order_id in _mine() if order_id != order.id]
    session["orders"] = [*others, order.id][-LISTED:]


def _page(form: Mapping[str, str], *, problem: str = "", declined: bool = False) -> str:
    return render_template(
        "shop/index.html",
        products=db.session.scalars(select(Product).order_by(Product.id)).all(),
        form=form,
        checkout=forms.new_id(),
        problem=problem,
        declined=declined,
    )
