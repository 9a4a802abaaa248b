"""Divides emails into chunks, each for one statement: memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from ..new_email import NewEmail

ENQUEUE_CHUNK = 1000
ENQUEUE_CHUNK_BYTES = 16 * 1024 * 1024
"""The most emails in one statement, and their octets."""

Item = TypeVar("Item")


def in_chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield non-empty lists, each for one statement."""
    pending = iter(items)
    while chunk := list(islice(pending, ENQUEUE_CHUNK)):
        yield chunk


def in_chunks_of_bytes(given: Iterable[NewEmail]) -> Iterator[list[NewEmail]]:
    """Yield non-empty lists of emails with their own contents, each for one statement."""
    chunk: list[NewEmail] = []
    size = 0
    for new in given:
        chunk.append(new)
        size += new.message.size
        if len(chunk) == ENQUEUE_CHUNK or size >= ENQUEUE_CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
