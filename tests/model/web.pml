/* The web, the person and the clock: who brings mails, withdraws them, and lets time pass. */

/* outbox.store.transitions.enqueue.Writer.add, outbox.flask_ext.session.session_events._after_commit */
inline commit(i, soon) {
	d_step {
		mail[i].status == nothing ->
		printf("web: mail %d is committed\n", i);
		mail[i].status = pending; mail[i].due = soon;
		nudged = NUDGE_TRUSTED
	}
}

/* outbox.worker.process.nudge.Nudge._try: the broker is away; logged, and not raised */
inline commit_unnudged(i) {
	d_step {
		NUDGE_TRUSTED && may_fail && mail[i].status == nothing ->
		printf("web: mail %d is committed; the broker is away, and nobody is nudged\n", i);
		faults++;
		mail[i].status = pending; mail[i].due = 1
	}
}

/* environment: the business transaction is rolled back, or its process dies */
inline roll_back(i) {
	d_step {
		mail[i].status == nothing ->
		printf("web: mail %d is rolled back\n", i);
		mail[i].status = absent
	}
}

/* outbox.store.transitions.cancel.withdraw, outbox.store.transitions.expire.expire, outbox.store.end_emails.end_emails */
inline withdraw(i) {
	d_step {
		WITHDRAW && !withdrawn && (mail[i].status == pending || mail[i].status == claimed) ->
		printf("person: mail %d is withdrawn\n", i);
		withdrawn = 1;
		id = i;
		end_as(cancelled)
	}
}

proctype Web(byte i) {
end:	do
	:: commit(i, 1)
	:: commit(i, 0)
	:: commit_unnudged(i)
	:: roll_back(i)
	:: withdraw(i)
	od
}

/* outbox.store.schema.clock.clock: `send_at` or the end of a backoff */
inline comes_due(i) {
	d_step {
		mail[i].status == pending && !mail[i].due ->
		printf("clock: mail %d is due\n", i);
		mail[i].due = 1
	}
}

#define worked_on(l) (worker[0].token == l || worker[1].token == l)
#define attended(l) (lease[l].tasks || worked_on(l) \
	|| (sweep[0].token == l && sweep[0].at == unpublished) \
	|| (sweep[1].token == l && sweep[1].at == unpublished))

/* environment: a lease that somebody lives to serve runs out, as he sleeps, or his task is late.
 * outbox.worker.leases.heartbeat.Heartbeat.holds: his own deadline was started first, so it ends first.
 * outbox.store.control.set_back.correct_moments.correct_moments: also where the clock was ahead, and is set back.
 */
inline runs_out(l) {
	d_step {
		lease[l].is == held && (may_fail || !attended(l)) ->
		printf("clock: the lease of token %d runs out\n", l);
		for (who : 0 .. WORKERS - 1) {
			worker[who].holds = worker[who].holds && worker[who].token != l
		}
		faults = faults + attended(l);
		lease[l].is = run_out
	}
}

/* outbox.worker.fleet.deaths.Deaths.free_slots, outbox.store.control.lease.let_run_out
 * The worker's host has seen it die, so no time passes, and nobody's own deadline ends.
 */
inline let_run_out(l) {
	d_step {
		lease[l].is == held && lease[l].started && (!worked_on(l) || DEATH_GUESSED) ->
		printf("host: the worker of token %d is dead, its lease runs out\n", l);
		lease[l].is = run_out
	}
}

#define ENDS(l) :: runs_out(l) :: let_run_out(l)

proctype Clock() {
end:	do
	:: comes_due(0)
	:: comes_due(1)
	ENDS(1)
	ENDS(2)
	ENDS(3)
	ENDS(4)
	ENDS(5)
#if TOKENS > 5
	ENDS(6)
	ENDS(7)
#endif
	od
}
