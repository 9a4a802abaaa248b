"""`flask --app webapp init-db`: fills an empty database with tables and goods."""

from __future__ import annotations

import click
from flask.cli import with_appcontext
from sqlalchemy import select

from .extensions import db
from .models import Product

GOODS = (
    ("notebook", "Ruled notebook", "160 pages that take ink without bleeding.", 1450),
    ("pen", "Fountain pen", "Steel nib, medium. Refills from any bottle.", 3900),
    ("ink", "Iron-gall ink", "Goes on blue, dries black, stays for centuries.", 1280),
    ("envelopes", "Lined envelopes", "Twenty-five, gummed, with a tissue lining.", 950),
    ("cards", "Correspondence cards", "Heavy cotton paper for the short answer.", 1600),
    ("wax", "Sealing wax", "Four sticks in post-office red.", 740),
)


@click.command("init-db")
@with_appcontext
def init_db() -> None:
    """Create the missing tables and add the missing goods. It is safe to repeat."""
    db.create_all()
    known = set(db.session.scalars(select(Product.slug)))
    for slug, name, blurb, price in GOODS:
        if slug not in known:
            db.session.add(Product(slug=slug, name=name, blurb=blurb, price=price))
    db.session.commit()
    click.echo("The database is ready.")
