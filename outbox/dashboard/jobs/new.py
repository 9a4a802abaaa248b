"""The dry run: how many messages an action would change. From there it is started as a job."""

from __future__ import annotations

from flask import redirect, request
from flask.typing import ResponseReturnValue

from ...domain.jobs.order import Action
from ...flask_ext.app.state import state_of
from ...flask_ext.jobs.starting import DryRun, MoreNow, NoneNow, OthersNow, Seen, dry_run_to_start
from ...flask_ext.jobs.starting import start as start_job
from ...store.jobs.walk import Count
from ...store.report_records import Job
from ..access.role import Role
from ..messages.search_form import SearchForm
from ..site.led import lead_to, was_led
from ..site.render import here, render
from ..site.site import Site, visitor
from .plan import FIELD, Plan
from .wording import WORDS

_WHY = {OthersNow: "others", NoneNow: "none"}


def add_to(site: Site) -> None:
    """Add the page and its act."""
    site.page("/jobs/new", index, Role.ACT)
    site.action("/jobs/start", start)


def index() -> ResponseReturnValue:
    """Count, and change nothing."""
    form = SearchForm.read(request.args)
    runtime, action = state_of().runtime, request.args.get("action", "")
    found, seen = dry_run_to_start(runtime, action, form.filters()[0])
    return render(
        "jobs/new.html",
        found=found,
        filters=form.filled,
        words=WORDS[found.action],
        is_more=was_led("more"),
        is_others=was_led("others"),
        is_none=was_led("none"),
        may_be_twice=found.action is Action.RETRY and form.fields["status"] == "unknown",
        plan_field=FIELD,
        plan=_plan(found, seen, form).sign(),
    )


def start() -> ResponseReturnValue:
    """Start exactly what was counted: nothing else of the form is read.

    If more messages fit by now, or others, or none, nothing is started, and the visitor is to look
    again.
    """
    plan = Plan.read(request.form.get(FIELD, ""), visitor().who)
    try:
        made = _started(plan)
    except MoreNow as refusal:
        why = next((word for kind, word in _WHY.items() if isinstance(refusal, kind)), "more")
        return lead_to(here("new_index", **plan.filters, action=plan.action, **{why: 1}), why)
    return redirect(here("job_show", job_id=made.id), 303)


def _plan(found: DryRun, seen: Seen, form: SearchForm) -> Plan:
    return Plan(
        who=visitor().who,
        action=found.action.value,
        filters=form.filled,
        upto=found.upto,
        emails=seen.fits.emails,
        more=seen.fits.more,
        stuck=seen.stuck.emails,
        more_stuck=seen.stuck.more,
    )


def _started(plan: Plan) -> Job:
    filters, runtime = SearchForm.read(plan.filters).filters()[0], state_of().writer_runtime
    seen = Seen(Count(plan.emails, plan.more), Count(plan.stuck, plan.more_stuck))
    return start_job(runtime, plan.action, filters, plan.upto, plan.who, seen)
