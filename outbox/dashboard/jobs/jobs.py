"""The list of jobs, newest first."""

from __future__ import annotations

from flask import request
from flask.typing import ResponseReturnValue

from ...flask_ext.jobs.verbs import Jobs
from ..site.render import render
from ..site.site import Site
from .wording import WORDS

PAGE = 50


def add_to(site: Site) -> None:
    """Add the page."""
    site.page("/jobs", index)


def index() -> ResponseReturnValue:
    """List a page of the jobs."""
    before = request.args.get("before", type=int)
    found = Jobs().jobs(before=before, limit=PAGE + 1)
    jobs, more = found[:PAGE], len(found) > PAGE
    return render("jobs/index.html", jobs=jobs, words=WORDS, more=more, before=before)
