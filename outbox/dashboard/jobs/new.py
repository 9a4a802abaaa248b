"""The dry run: how many messages an action would change. From there it is started as a job."""

from __future__ import annotations

from flask import redirect, request
from flask.typing import ResponseReturnValue

from ...domain.jobs.order import Action
from ...flask_ext.jobs.verbs import Jobs
from ..access.role import Role
from ..messages.search_form import SearchForm
from ..site.render import here, render
from ..site.site import Site, visitor
from .plan import FIELD, Plan
from .wording import WORDS


def add_to(site: Site) -> None:
    """Add the page and its act."""
    site.page("/jobs/new", index, Role.ACT)
    site.action("/jobs/start", start)


def index() -> ResponseReturnValue:
    """Count, and change nothing."""
    form = SearchForm.read(request.args)
    found = Jobs().dry_run(request.args.get("action", ""), **form.filters()[0])
    plan = Plan(who=visitor().who, action=found.action.value, filters=form.filled, upto=found.upto)
    return render(
        "jobs/new.html",
        found=found,
        filters=form.filled,
        words=WORDS[found.action],
        may_be_twice=found.action is Action.RETRY and form.fields["status"] == "unknown",
        plan_field=FIELD,
        plan=plan.sign(),
    )


def start() -> ResponseReturnValue:
    """Start exactly what was counted: nothing else of the form is read."""
    plan = Plan.read(request.form.get(FIELD, ""), visitor().who)
    filters = SearchForm.read(plan.filters).filters()[0]
    made = Jobs().start_job(plan.action, **filters, upto=plan.upto, by=plan.who)
    return redirect(here("job_show", job_id=made.id), 303)
