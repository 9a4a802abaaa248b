"""One job: how far it is, live, and what stops it or lets it go on."""

from __future__ import annotations

from flask import abort, redirect
from flask.typing import ResponseReturnValue

from ...flask_ext.app.state import state_of
from ...flask_ext.jobs.starting import resume as resume_job
from ...flask_ext.jobs.verbs import Jobs
from ...store.report_records import Job
from ..site.done import just_done, since_of_form
from ..site.render import here, render
from ..site.site import Site, visitor
from .wording import WORDS

_RULE = "/jobs/<outbox_number:job_id>"


def add_to(site: Site) -> None:
    """Add the page, its live part, and its acts."""
    site.page(_RULE, show)
    site.page(f"{_RULE}/now", now)
    site.action(f"{_RULE}/stop", stop)
    site.action(f"{_RULE}/resume", resume)


def show(job_id: int) -> ResponseReturnValue:
    """Show the whole page."""
    return _page("jobs/job.html", job_id)


def now(job_id: int) -> ResponseReturnValue:
    """Return the part that tells how far it is."""
    return _page("jobs/now.html", job_id)


def stop(job_id: int) -> ResponseReturnValue:
    """Stop it."""
    Jobs().stop_job(_found(job_id).id, by=visitor().who)
    return _back(job_id)


def resume(job_id: int) -> ResponseReturnValue:
    """Let it go on, if nobody has stopped it anew since the page was made."""
    runtime = state_of().writer_runtime
    resume_job(runtime, _found(job_id).id, visitor().who, since_of_form())
    return _back(job_id)


def _back(job_id: int) -> ResponseReturnValue:
    return redirect(here("job_show", job_id=job_id, done=1), 303)


def _page(template: str, job_id: int) -> str:
    job = _found(job_id)
    done = just_done(("stop job", "resume job"), job=job.id)
    return render(template, job=job, words=WORDS[job.action], done=done)


def _found(job_id: int) -> Job:
    job = Jobs().job(job_id) if job_id else None
    if job is None:
        abort(404)
    return job
