/* The outbox's protocol: the table, the broker, the web, sweeps, workers, the clock.
 *
 * Every action is one step, as every transaction of ours is one commit, and names the functions of
 * the code that it models, or says that it is the environment's doing. Whatever is enabled may come
 * next: tasks arrive late and out of order, sweeps overlap. Faults are drawn from one budget: any
 * FAULTS of any kinds, at any points. All that is not paid for makes progress, so that each run
 * comes to an end, and there the promise is looked at once more: that no mail was lost.
 */
#include "settings.h"

mtype = { nothing, absent, pending, claimed, sending, sent, failed, unknown, cancelled };
mtype = { gone, held, run_out, suspected };
mtype = { idle, chosen, unpublished, judging, between, open, checked, handed_over, ending };
mtype = { none, took, put_off, refused, lost_reply, unsent };
mtype = { never_lost, never_twice, no_copy_under_hold, no_copy_untold, fenced, fenced_on_the_wire,
          status_never_lies, doubt_needs_a_fault, doubt_fits_the_window };

typedef Mail {                       /* outbox_email */
	mtype status = nothing;
	bit due;                     /* `due_at` is set and has come: what a claim looks for */
	byte token, unknown_token, unknown_count, attempts;
	byte copies, declared;       /* ghosts: copies the server took, unknown_count ever declared */
}
typedef Lease {                      /* outbox_lease; its number is the claim's token */
	mtype is = gone;
	bit started;
	byte tasks;                  /* how often its task stands in the broker */
	byte settled;                /* ghost: the set of its mails that were recorded or doubted */
}
typedef Worker {
	mtype at = idle;
	bit holds;                   /* its own clock says that the lease surely holds */
	byte token, left, window;    /* the claim, and sets of mails: not yet sent, in the window */
	byte mail;                   /* the one on the wire */
	mtype result[MAILS] = none;
}
typedef Sweep {
	mtype at = idle;
	byte token, picked;
}

Mail mail[MAILS];
Lease lease[TOKENS + 1];             /* token 0 is none */
Worker worker[WORKERS];
Sweep sweep[SWEEPS];
byte faults;
bit withdrawn, nudged;
SCRATCH byte id, who, tok, some;             /* used within one step only */
SCRATCH byte ours;

#define ALL ((1 << MAILS) - 1)
#define in(set, i) (((set) >> (i)) & 1)
#define HELD_BACK (MAILS - 1)        /* this mail's policy is `hold`; the others' is `resend` */
#define may_fail (faults < FAULTS)

inline promise(kept, which) {
	if
	:: (kept) || (ONLY && ONLY != which)
	:: else -> printf("BROKEN: %e\n", which); assert(false)
	fi
}

/* outbox.store.transitions.claim._batch: no other claim has this token, and nobody knows it any more */
inline new_token() {
	for (tok : 1 .. TOKENS) {
		some = lease[tok].is != gone || lease[tok].tasks;
		for (id : 0 .. MAILS - 1) { some = some || mail[id].token == tok }
		for (who : 0 .. WORKERS - 1) { some = some || worker[who].token == tok }
		for (who : 0 .. SWEEPS - 1) { some = some || sweep[who].token == tok }
		if
		:: !some -> break
		:: else
		fi
	}
	assert(tok <= TOKENS)          /* else the bound would hide runs */
}

/* outbox.store.transitions.rescue._mark_unknown, outbox.store.transitions.rescue._is_final, outbox.domain.delivery.outcome._doubt */
inline declare_doubt() {
	promise(faults > 0, doubt_needs_a_fault);
	mail[id].declared++; mail[id].unknown_count++; mail[id].attempts++; mail[id].token = 0;
	if
	:: id == HELD_BACK || mail[id].unknown_count >= MAX_UNKNOWN || mail[id].attempts >= MAX_ATTEMPTS ->
		printf("      mail %d is in doubt, and a person decides\n", id);
		mail[id].status = unknown
	:: else ->
		printf("      mail %d is in doubt, and will be sent again\n", id);
		mail[id].status = pending
	fi
}

/* outbox.store.transitions.release.give_back */
inline give_back() {
	printf("      mail %d is given back\n", id);
	mail[id].status = pending; mail[id].due = 1; mail[id].token = 0
}

/* outbox.store.end_emails.by_final_status, outbox.domain.delivery.status.end_status */
inline end_as(target) {
	mail[id].status = (mail[id].unknown_count && !DOUBT_FORGOTTEN -> unknown : target);
	mail[id].due = 0; mail[id].token = 0; mail[id].attempts = 0;
	promise(mail[id].status == unknown || !mail[id].copies, status_never_lies)
}

#include "web.pml"
#include "sweeps.pml"
#include "workers.pml"

#define is_over(s) (s == absent || s == sent || s == failed || s == unknown || s == cancelled)

/* When nothing more can happen: the last look. */
active proctype End() {
	timeout ->
	d_step {
		printf("nothing more can happen\n");
		for (id : 0 .. MAILS - 1) {
			printf("      mail %d, copies: %d, is %e\n", id, mail[id].copies, mail[id].status);
			promise(is_over(mail[id].status), never_lost);
			promise(mail[id].status != sent || mail[id].copies, never_lost);
			promise(mail[id].status != absent || !mail[id].copies, status_never_lies)
		}
		for (tok : 1 .. TOKENS) { assert(lease[tok].is == gone && !lease[tok].tasks) }
		for (who : 0 .. WORKERS - 1) { assert(worker[who].at == idle) }
		skip
	}
}

init {
	atomic {
		for (id : 0 .. MAILS - 1) { run Web(id) }
		for (some : 0 .. SWEEPS - 1) { run Sweeper(some) }
		for (who : 0 .. WORKERS - 1) { run Sender(who) }
		run Clock()
	}
}
