/* Probes: a sweep that finds the breaker half open asks the server whether it is back. */

#define is_half_open (row.is == open && row.has_come && !row.prober)
#define prefer(set, these) (((set) & (these)) -> ((set) & (these)) : (set))

/* outbox.worker.probe._choose, outbox.store.control.blame.comparison.candidates, outbox.store.control.blame.comparison.ranked_probes
 * Not the suspect; unlike it; one that nothing is held against; the first of several.
 */
inline choose_probe(b) {
	who = 0;
	for (id : 0 .. EMAILS - 1) { who = who | ((!waited[id] && !attempts[id]) << id) }
	some = due;
	if
	:: row.suspect && !PROBE_TAKES_THE_SAME ->
		some = prefer(some, without(ALL, row.suspect - 1));
		some = prefer(some, unlike(class_of(row.suspect - 1)));
		some = prefer(some, who)
	:: else
	fi;
	bat.last = (row.cause == session -> 0 : 1 + first(some))
}

/* outbox.worker.probe.claim_probes, outbox.store.queries.sweep.sweep_snapshot.read_snapshot, outbox.store.queries.sweep.server_limits.limits */
inline see_half_open(b) {
	d_step {
		bat.at == idle && next_idle(b) && is_half_open && due ->
		choose_probe(b);
		printf("batch %d: may probe with email (or no email: -1): %d\n", b, bat.last - 1);
		bat.at = saw_half_open
	}
}

/* outbox.store.control.circuit_breaker.take_probe: taking it moves the next one on */
inline take_probe(b) {
	d_step {
		bat.at == saw_half_open ->
		if
		:: is_half_open || PROBE_NOT_ASKED_AGAIN ->
			printf("batch %d: takes the probe\n", b);
			row.has_come = 0; row.prober = 0;
			bat.at = took_probe
		:: else ->
			printf("batch %d: another has the probe\n", b);
			forget(b)
		fi
	}
}

/* outbox.store.transitions.claim.claim_probe */
inline claim_probe(b) {
	d_step {
		bat.at == took_probe ->
		if
		:: !bat.last ->
			printf("batch %d: shall have a session\n", b);
			bat.at = claimed_probe
		:: bat.last && in(due, bat.last - 1) ->
			printf("batch %d: claims email %d as the probe\n", b, bat.last - 1);
			bat.todo = 1 << (bat.last - 1);
			due = due & ~bat.todo;
			bat.last = 0;
			bat.at = claimed_probe
		:: else ->
			printf("batch %d: email %d is gone, and the probe with it\n", b, bat.last - 1);
			forget(b)
		fi
	}
}

/* outbox.store.control.circuit_breaker.note_prober, outbox.worker.sweep.publish: its lease is noted, then its task goes out */
inline note_prober(b) {
	d_step {
		bat.at == claimed_probe ->
		if
		:: row.is == open && (!row.prober || PROBER_NOTED_LATE) ->
			printf("batch %d: is noted as the probe\n", b);
			row.prober = b + 1
		:: else -> printf("batch %d: is no probe, for others were faster\n", b)
		fi;
		bat.at = handed_out
	}
}
