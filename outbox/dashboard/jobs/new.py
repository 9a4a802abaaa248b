"""The dry run: how many messages an action would change. From there it is started as a job."""

from __future__ import annotations

from flask import redirect, request
from flask.typing import ResponseReturnValue

from ...domain.jobs.order import Action
from ...flask_ext.app.state import state_of
from ...flask_ext.jobs.starting import DryRun, MoreNow
from ...flask_ext.jobs.starting import start as start_job
from ...flask_ext.jobs.verbs import Jobs
from ...store.jobs.walk import Count
from ...store.report_records import Job
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
    return render(
        "jobs/new.html",
        found=found,
        filters=form.filled,
        words=WORDS[found.action],
        is_more="more" in request.args,
        may_be_twice=found.action is Action.RETRY and form.fields["status"] == "unknown",
        plan_field=FIELD,
        plan=_plan(found, form).sign(),
    )


def start() -> ResponseReturnValue:
    """Start exactly what was counted: nothing else of the form is read.

    If more messages fit by now, nothing is started, and the visitor is to look again.
    """
    plan = Plan.read(request.form.get(FIELD, ""), visitor().who)
    try:
        made = _started(plan)
    except MoreNow:
        return redirect(here("new_index", **plan.filters, action=plan.action, more=1), 303)
    return redirect(here("job_show", job_id=made.id), 303)


def _plan(found: DryRun, form: SearchForm) -> Plan:
    return Plan(
        who=visitor().who,
        action=found.action.value,
        filters=form.filled,
        upto=found.upto,
        emails=found.emails,
        more=found.more,
    )


def _started(plan: Plan) -> Job:
    filters = SearchForm.read(plan.filters).filters()[0]
    state = state_of()
    state.refuse_own_write()
    seen = Count(plan.emails, plan.more)
    return start_job(state.runtime, plan.action, filters, plan.upto, plan.who, seen)
