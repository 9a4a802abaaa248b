"""Reads forms: each function returns a clean value, or raises FormError with what is wrong."""

from __future__ import annotations

import unicodedata
import uuid
from collections.abc import Mapping

LONGEST_ADDRESS = 254
"""Characters of an e-mail address (RFC 5321 §4.5.3.1.3, without the angle brackets)."""


class FormError(ValueError):
    """Says what the visitor must change. Its text is shown to them."""


def line(form: Mapping[str, str], name: str, label: str, *, most: int) -> str:
    """Read one line of text."""
    return _text(form, name, label, most=most, allowed="")


def paragraphs(form: Mapping[str, str], name: str, label: str, *, most: int) -> str:
    """Read text of several lines, with plain newlines whatever the browser sent."""
    value = _text(form, name, label, most=most, allowed="\r\n\t")
    return value.replace("\r\n", "\n").replace("\r", "\n")


def number(form: Mapping[str, str], name: str, label: str, *, least: int, most: int) -> int:
    """Read a whole number within bounds."""
    value = form.get(name, "").strip()
    if value.isascii() and value.isdigit() and len(value) < 10 and least <= int(value) <= most:
        return int(value)
    raise FormError(f"{label} must be a whole number from {least:,} to {most:,}.")


def new_id() -> str:
    """Return an id for a form about to be shown, so that it acts only once if it is sent twice."""
    return str(uuid.uuid4())


def form_id(form: Mapping[str, str], name: str) -> str:
    """Read the id that `new_id` gave the form."""
    try:
        return str(uuid.UUID(form.get(name, "")))
    except ValueError:
        raise FormError("This form is incomplete. Please load the page again.") from None


def _text(form: Mapping[str, str], name: str, label: str, *, most: int, allowed: str) -> str:
    value = form.get(name, "").strip()
    if not value:
        raise FormError(f"{label} is missing.")
    if len(value) > most:
        raise FormError(f"{label} must have at most {most:,} characters.")
    if any(unicodedata.category(char) in {"Cc", "Cs"} and char not in allowed for char in value):
        raise FormError(f"{label} must not contain control characters.")
    return value
