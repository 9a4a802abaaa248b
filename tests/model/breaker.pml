/* A server's circuit breaker: suspicion, blame and probes, over a few emails of two classes.
 *
 * Beside outbox.pml, which knows nothing of them. The environment says which emails the server
 * halts by a reply to their own command: none, one, two, a class, all. That it changes its mind is
 * a fault of one budget, as is that no session can be had, and that a process dies. Emails come
 * due, and breakers half open, at any moment. So a delay is an order and no time, and an email's
 * lifetime is a number of delays. All that is no fault brings an email nearer to its end.
 */
#include "breaker.h"

mtype = { closed, suspected, open };                 /* and half open: its time has come */
mtype = { session, emails };
mtype = { idle, saw_half_open, took_probe, claimed_probe, handed_out,
          sending, weighing, opening, recording, settling };
mtype = { innocent_not_charged, innocent_not_ended, outage_charges_nobody, outage_is_noticed,
          class_stops_no_other, one_probe, never_stopped, ends_by_itself };

typedef Row {                        /* outbox_breaker, and the ramp that follows */
	mtype is = closed;
	mtype cause = session;
	bit has_come;                /* `retry_at` */
	bit recovering;              /* `recovered_at`: one batch at a time */
	byte suspect, prober;        /* the email, or the batch, and one: 0 is none */
}
typedef Batch {
	mtype at = idle;
	byte todo, aside, blamed, held;  /* sets of its emails */
	byte suspects, common;       /* how many, and the set of their classes */
	byte last;                   /* the last suspect and one */
	mtype knew = closed;         /* how the breaker stood when the batch began */
	mtype cause = session;       /* what it is about to open it for */
	bit judged, tripped, probes;
	bit weighed;                 /* ghost: others must tell */
}

Row row;
Batch batch[BATCHES];
byte waited[EMAILS], attempts[EMAILS];
byte behind = ALL;                   /* sets of emails: to come due later; */
byte due, sent, failed;              /* due; at their ends. Those of no set are claimed. */
byte bad;                            /* which emails the server halts */
byte stale;                          /* ghost: it changed its mind since it halted these */
byte unheeded;                       /* ghost: batches in a row that could have told, and did not */
byte halts, passed;                  /* ghosts, if COUNTED: all, and in a row while a good one was due */
byte faults;
SCRATCH byte id, who, some;          /* used within one step only */

#define in(set, i) (((set) >> (i)) & 1)
#define without(set, i) ((set) & ~(1 << (i)))
#define first(set) (in(set, 0) -> 0 : (in(set, 1) -> 1 : (in(set, 2) -> 2 : 3)))
#define class_of(i) (in(CLASS_A, i) -> 1 : 2)
#define unlike(classes) (((classes) == 1) * CLASS_B + ((classes) == 2) * CLASS_A)
#define may_fail (faults < FAULTS)

inline promise(kept, which) {
	if
	:: (kept) || (ONLY && ONLY != which)
	:: else -> printf("BROKEN: %e\n", which); assert(false)
	fi
}

/* environment: the server changes its mind, and how often is bounded */
inline change_mind(to) {
	d_step {
		may_fail && bad != to ->
		printf("server: from now on it halts the emails (as a set of bits): %d\n", to);
		faults++;
		bad = to;
		for (who : 0 .. BATCHES - 1) { stale = stale | batch[who].aside }
	}
}

/* outbox.store.schema.clock.clock: `due_at` */
inline comes_due(i) {
	d_step {
		in(behind, i) ->
		printf("clock: email %d is due\n", i);
		behind = without(behind, i); due = due | (1 << i)
	}
}

/* outbox.store.queries.sweep.server_limits.is_half_open, outbox.domain.delivery.breaker_timing.open_seconds
 * outbox.store.control.set_back.correct_moments.correct_moments: its time comes, whatever the clock had shown
 */
inline half_opens() {
	d_step {
		row.is == open && !row.has_come ->
		printf("clock: the breaker's time has come\n");
		row.has_come = 1
	}
}

/* outbox.store.control.circuit_breaker.counts: SUSPICION_SECONDS */
inline forgets() {
	d_step {
		row.is == suspected ->
		printf("clock: the suspicion is forgotten\n");
		row.is = closed; row.suspect = 0;
		unheeded = 0
	}
}

/* outbox.domain.delivery.breaker_timing.ramp_limit, outbox.store.queries.sweep.server_limits.ramps */
inline ramp_ends() {
	d_step {
		row.recovering ->
		printf("clock: the ramp is over\n");
		row.recovering = 0
	}
}

/* outbox.store.control.circuit_breaker.trip: `whom` is the suspect's number and one, or 0 */
inline trip(why, whom) {
	printf("      the breaker is open: %e\n", why);
	if
	:: row.is == open ->
		row.cause = (why == session -> session : row.cause);
		row.suspect = (whom -> whom : row.suspect)
	:: else ->
		row.is = open; row.cause = why; row.suspect = whom; row.prober = 0
	fi;
	row.has_come = 0;
	unheeded = 0
}

#define bat batch[b]

/* The second one begins beside the first one only: they are alike, and one order will do. */
#define next_idle(b) (b == 0 || batch[0].at != idle)
#define all_idle (batch[0].at == idle && batch[BATCHES - 1].at == idle)

#include "probes.pml"
#include "batches.pml"

proctype Server() {
end:	do
	:: change_mind(0)
	:: change_mind(ONE_EMAIL)
	:: change_mind(TWO_EMAILS)
	:: change_mind(CLASS_A)
	:: change_mind(CLASS_B)
	:: change_mind(ALL)
	od
}

proctype Clock() {
end:	do
	:: comes_due(0)
	:: comes_due(1)
	:: comes_due(2)
#if EMAILS > 3
	:: comes_due(3)
#endif
	:: half_opens()
	:: forgets()
	:: ramp_ends()
	od
}

/* When nothing more can happen: the last look. */
active proctype End() {
	timeout ->
	d_step {
		printf("nothing more can happen; sent: %d, failed: %d (sets of bits)\n", sent, failed);
		for (id : 0 .. EMAILS - 1) {
			promise(in(sent | failed, id) || in(bad, id), never_stopped);
			promise(in(sent | failed, id), ends_by_itself)
		}
		for (who : 0 .. BATCHES - 1) { assert(batch[who].at == idle) }
		skip
	}
}

init {
	atomic {
		if
		:: bad = 0
		:: bad = ONE_EMAIL
		:: bad = TWO_EMAILS
		:: bad = CLASS_A
		:: bad = CLASS_B
		:: bad = ALL
		fi;
		printf("server: it halts the emails (as a set of bits): %d\n", bad);
		for (some : 0 .. BATCHES - 1) { run Worker(some) }
		run Server();
		run Clock()
	}
}
