/* Batches: emails claimed, tried one by one, and judged by what the next one is told. */

#define left(b) (bat.todo -> sending : recording)

/* outbox.store.transitions.claim.claim, outbox.store.queries.sweep.server_limits.limits, outbox.worker.capacity.server_rooms.rooms */
inline claim(b, lane) {
	d_step {
		bat.at == idle && next_idle(b) && (due & lane) && row.is != open && !(row.recovering && !all_idle) ->
		bat.todo = due & lane;
		printf("batch %d: claims emails (as a set of bits): %d\n", b, bat.todo);
		due = due & ~bat.todo;
		bat.at = handed_out
	}
}

/* outbox.store.transitions.start.start, outbox.store.queries.claimed_batch.load, outbox.worker.batch.server_choice.ServerChoice, outbox.worker.batch.watch.server_watch.Watch
 * outbox.worker.batch.next_window.NextWindow.open_session, outbox.worker.batch.sending.Sending._probe
 */
inline start(b, fails) {
	d_step {
		bat.at == handed_out && (!fails || may_fail) ->
		bat.probes = row.is == open && row.prober == b + 1;
		if
		:: row.is == open && !bat.probes ->
			printf("batch %d: no server is left to it\n", b);
			due = due | bat.todo;
			forget(b)
		:: else ->
			printf("batch %d: begins, and the breaker is %e\n", b, row.is);
			some = 0;
			for (who : 0 .. BATCHES - 1) { some = some + batch[who].probes }
			promise(some <= 1, one_probe);
			bat.knew = row.is;
			bat.suspects = row.is == suspected;
			bat.common = (row.is == suspected -> class_of(row.suspect - 1) : 0);
			if
			:: fails -> lose_session(b)
			:: !fails && bat.todo -> bat.at = sending
			:: else ->
				printf("batch %d: has a session\n", b);
				bat.judged = 1; bat.at = settling
			fi
		fi
	}
}

/* outbox.worker.batch.next_window.NextWindow._is_connected, outbox.worker.batch.watch.server_watch.Watch.session_failed */
inline lose_session(b) {
	printf("batch %d: can have no session\n", b);
	faults++;
	bat.tripped = 1; bat.cause = session; bat.at = opening
}

/* outbox.worker.batch.send_window.Window._give_to_this_server, outbox.worker.batch.watch.server_watch.Watch.pick
 * outbox.domain.delivery.blame.Suspicion.pick, outbox.worker.batch.watch.server_watch.Watch.note
 */
inline try(b, fails) {
	d_step {
		bat.at == sending && (!fails || may_fail) ->
		id = first(prefer(bat.todo, unlike(bat.common)));
		if
		:: fails && !OUTAGE_IS_A_SUSPICION -> lose_session(b)
		:: fails && OUTAGE_IS_A_SUSPICION -> faults++; be_halted(b)
		:: !fails && in(bad, id) -> be_halted(b)
		:: else -> be_taken(b)
		fi
	}
}

/* outbox.domain.delivery.reply_table.judge, outbox.worker.batch.watch.server_watch.Watch._suspect, outbox.domain.delivery.blame.Suspicion.is_enough */
inline be_halted(b) {
	printf("batch %d: email %d is halted\n", b, id);
	bat.last = id + 1;
	stale = without(stale, id);
	halts = halts + COUNTED;
	passed = ((due | bat.todo) & ~bad -> passed + COUNTED : 0);
	promise(halts <= EMAILS * LIVES, ends_by_itself);
	promise(passed <= (EMAILS - 1) * LIVES, never_stopped);
	if
	:: HALT_BLAMES_THE_SERVER || (PROBE_TAKES_THE_SAME && bat.probes) ->
		bat.tripped = 1; bat.cause = emails; bat.at = opening
	:: else ->
		bat.todo = without(bat.todo, id);
		bat.aside = bat.aside | (1 << id);
		bat.blamed = bat.blamed | (SUSPECT_CHARGED_AT_ONCE << id);
		bat.suspects = (bat.suspects < 2 -> bat.suspects + 1 : 2);
		bat.common = bat.common | class_of(id);
		bat.at = (bat.suspects < 2 || (bat.todo & unlike(bat.common)) -> left(b) : weighing)
	fi
}

/* outbox.worker.batch.watch.server_watch.Watch._clear, outbox.worker.batch.send_window.Window._blame: those before it are to blame */
inline be_taken(b) {
	printf("batch %d: email %d is taken\n", b, id);
	bat.todo = without(bat.todo, id);
	sent = sent | (1 << id);
	waited[id] = 0; attempts[id] = 0;
	bat.judged = 1; bat.last = 0; bat.suspects = 0; bat.common = 0;
	bat.blamed = bat.aside;
	unheeded = 0; passed = 0;
	bat.at = left(b)
}

/* outbox.worker.batch.watch.other_emails.OtherEmails.wait, outbox.store.control.blame.comparison.outsider_waits
 * outbox.worker.batch.send_window.Window._leave_server
 */
inline weigh(b) {
	d_step {
		bat.at == weighing ->
		if
		:: (due & unlike(bat.common)) && !CLASS_BLAMES_THE_SERVER ->
			printf("batch %d: an email that differs waits; emails not tried: %d\n", b, bat.todo);
			bat.held = bat.todo; bat.todo = 0;
			bat.weighed = 1; unheeded = 0;
			bat.at = recording
		:: else ->
			promise(!(due & unlike(bat.common) & ~bad), class_stops_no_other);
			bat.tripped = 1; bat.cause = emails; bat.at = opening
		fi
	}
}

/* outbox.worker.batch.watch.server_breaker.ServerBreaker.trip */
inline open_breaker(b) {
	d_step {
		bat.at == opening ->
		printf("batch %d: the server is to blame\n", b);
		trip(bat.cause, bat.last * (bat.cause == emails));
		bat.cause = session;
		bat.at = recording
	}
}

/* outbox.worker.batch.batch_results.Results.record_and_open, outbox.worker.batch.send_window.Window._add_unjudged, outbox.worker.batch.result_factory.ResultFactory.give_back */
inline record(b) {
	d_step {
		bat.at == recording ->
		printf("batch %d: records its results\n", b);
		for (id : 0 .. EMAILS - 1) {
			if
			:: in(bat.aside & bat.blamed, id) -> charge()
			:: in(bat.aside & ~bat.blamed, id) -> put_behind()
			:: in(bat.held, id) -> pass_over()
			:: else
			fi
		}
		due = due | bat.todo;
		stale = stale & ~bat.aside;
		bat.todo = 0; bat.aside = 0; bat.blamed = 0; bat.held = 0; bat.suspects = 0; bat.common = 0;
		bat.at = settling
	}
}

/* outbox.worker.batch.result_factory.ResultFactory.unjudged, outbox.domain.delivery.outcome.blamed, outbox.domain.delivery.outcome._put_off */
inline charge() {
	printf("      email %d is charged\n", id);
	promise(in(bad, id) || in(stale, id), innocent_not_charged);
	promise(bad != ALL || in(stale, id), outage_charges_nobody);
	attempts[id]++;
	end_or_wait(attempts[id] == MAX_ATTEMPTS || waited[id] == LIFETIME)
}

/* outbox.domain.delivery.outcome._behind, outbox.domain.scheduling.backoff.behind: its lifetime counts down */
inline put_behind() {
	printf("      email %d waits behind the others\n", id);
	waited[id] = waited[id] + (waited[id] < LIFETIME);
	end_or_wait(waited[id] == LIFETIME)
}

/* outbox.worker.batch.result_factory.ResultFactory.unjudged, outbox.domain.scheduling.backoff.passed_over: it never ends by that */
inline pass_over() {
	printf("      email %d was not tried, and waits\n", id);
	waited[id] = waited[id] + (waited[id] < LIFETIME);
	end_or_wait(UNTRIED_END && waited[id] == LIFETIME)
}

/* outbox.domain.delivery.outcome.ended_outcome */
inline end_or_wait(over) {
	if
	:: over ->
		printf("      email %d ends\n", id);
		promise(in(bad, id) || in(stale, id), innocent_not_ended);
		failed = failed | (1 << id);
		waited[id] = 0; attempts[id] = 0
	:: else -> behind = behind | (1 << id)
	fi
}

/* outbox.worker.batch.watch.server_watch.Watch.settle, outbox.worker.batch.watch.server_breaker.ServerBreaker.keep_suspicion
 * outbox.store.control.blame.suspicion.suspect, outbox.store.control.blame.suspicion.clear
 * outbox.store.control.circuit_breaker.close, outbox.worker.batch.sending.Sending.finish
 */
inline settle(b) {
	d_step {
		bat.at == settling ->
		printf("batch %d: is done\n", b);
		if
		:: bat.judged && !bat.tripped && bat.knew == open && row.is != closed ->
			printf("      the breaker is closed\n");
			row.recovering = row.recovering || row.is == open;
			row.is = closed; row.suspect = 0; row.prober = 0; row.has_come = 0; row.cause = session
		:: bat.judged && !bat.tripped && bat.knew == suspected && row.is == suspected ->
			printf("      the suspicion is cleared\n");
			row.is = closed; row.suspect = 0; unheeded = 0
		:: else
		fi;
		if
		:: bat.last && !bat.tripped && bat.knew == open -> trip(emails, bat.last)
		:: bat.last && !bat.tripped && bat.knew != open && row.is != open && !SUSPICION_FORGOTTEN ->
			printf("      the server is suspected\n");
			row.is = suspected; row.suspect = bat.last
		:: else
		fi;
		unheeded = unheeded + (bat.last && !bat.tripped && bat.knew != open && row.is != open && !bat.weighed && bad == ALL);
		promise(unheeded <= BATCHES, outage_is_noticed);
		forget(b)
	}
}

/* outbox.store.transitions.rescue.rescue: the process dies; what it had is given back */
inline die(b) {
	d_step {
		bat.at != idle && may_fail ->
		printf("batch %d: its process dies\n", b);
		faults++;
		due = due | bat.todo | bat.aside | bat.held;
		forget(b)
	}
}

/* outbox.store.control.lease.end: its memory ends, and its lease */
inline forget(b) {
	bat.at = idle; bat.todo = 0; bat.aside = 0; bat.blamed = 0; bat.held = 0;
	bat.suspects = 0; bat.common = 0; bat.last = 0; bat.knew = closed; bat.cause = session;
	bat.judged = 0; bat.tripped = 0; bat.probes = 0; bat.weighed = 0;
	row.prober = (row.prober == b + 1 && !PROBER_OUTLIVES_ITS_LEASE -> 0 : row.prober)
}

proctype Worker(byte b) {
end:	do
	:: claim(b, ALL)
	:: claim(b, CLASS_A)
	:: claim(b, CLASS_B)
	:: see_half_open(b)
	:: take_probe(b)
	:: claim_probe(b)
	:: note_prober(b)
	:: start(b, 0)
	:: start(b, 1)
	:: try(b, 0)
	:: try(b, 1)
	:: weigh(b)
	:: open_breaker(b)
	:: record(b)
	:: settle(b)
	:: die(b)
	od
}
