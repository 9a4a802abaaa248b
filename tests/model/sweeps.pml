/* Sweeps: beat's, and those that come of a nudge or of a task's end. They may overlap. */

/* The second sweep begins beside the first one only: they are alike, and one order will do. */
#define sweeps_now(s) \
	(sweep[s].at == idle && (s == 0 || sweep[0].at != idle) && (!NUDGE_TRUSTED || nudged))
#define is_due(set) ((!in(set, 0) || mail[0].due) && (!in(set, 1) || mail[1].due))

/* outbox.worker.sweep.sweep, outbox.store.queries.sweep.sweep_snapshot.read_snapshot, outbox.store.transitions.claim.due_statement */
inline choose(s, set) {
	d_step {
		sweeps_now(s) && is_due(set) ->
		printf("sweep %d: sees what is due (as a set of bits: %d)\n", s, set);
		nudged = 0;
		sweep[s].picked = set; sweep[s].at = chosen
	}
}

/* outbox.store.transitions.claim.claim, outbox.store.transitions.claim.guarded_statement, outbox.store.transitions.claim._lease */
inline claim(s) {
	d_step {
		sweep[s].at == chosen ->
		new_token();
		some = 0;
		for (id : 0 .. MAILS - 1) {
			if
			:: in(sweep[s].picked, id) && (mail[id].due || CLAIM_UNGUARDED) ->
				printf("sweep %d: claims mail %d under token %d\n", s, id, tok);
				mail[id].status = claimed; mail[id].token = tok;
				mail[id].due = CLAIM_STAYS_DUE; mail[id].unknown_token = 0;
				some = 1
			:: else
			fi
		}
		sweep[s].picked = 0; sweep[s].at = idle;
		if
		:: some ->
			lease[tok].is = held;
			sweep[s].token = tok; sweep[s].at = unpublished
		:: else -> printf("sweep %d: others were faster\n", s)
		fi
	}
}

/* outbox.worker.sweep.publish: once; not at all, as the broker or the sweep dies; or doubled */
inline publish(s, times) {
	d_step {
		sweep[s].at == unpublished && (times == 1 || may_fail) ->
		printf("sweep %d: publishes the task of token %d, times: %d\n", s, sweep[s].token, times);
		faults = faults + (times != 1);
		lease[sweep[s].token].tasks = lease[sweep[s].token].tasks + times;
		sweep[s].token = 0; sweep[s].at = idle
	}
}

/* outbox.store.control.lapsed_leases.note_lapsed */
inline suspect(s, l) {
	d_step {
		s == 0 && sweeps_now(s) && lease[l].is == run_out && lease[l].started ->
		printf("sweep %d: suspects the worker of token %d\n", s, l);
		lease[l].is = suspected
	}
}

/* outbox.store.control.lapsed_leases.is_rescuable */
#define rescuable(l) \
	(lease[l].is == suspected || (lease[l].is == run_out && !lease[l].started) \
	|| (RESCUE_BLIND && lease[l].is == held && lease[l].started))

/* outbox.store.control.lapsed_leases.rescuable */
inline judge(s, l) {
	d_step {
		sweeps_now(s) && rescuable(l) ->
		printf("sweep %d: sees that token %d is to be judged\n", s, l);
		sweep[s].token = l; sweep[s].at = judging
	}
}

/* outbox.store.transitions.rescue._rescue_one */
inline rescue(s) {
	d_step {
		sweep[s].at == judging ->
		tok = sweep[s].token;
		if
		:: rescuable(tok) || RESCUE_UNCHECKED ->
			printf("sweep %d: rescues token %d\n", s, tok);
			lease[tok].is = gone; lease[tok].started = 0;
			for (id : 0 .. MAILS - 1) {
				if
				:: mail[id].token != tok
				:: mail[id].token == tok && mail[id].status == sending && !RESCUE_WITHOUT_DOUBT ->
					declare_doubt();
					mail[id].unknown_token = tok * worked_on(tok);
					lease[tok].settled = lease[tok].settled | (worked_on(tok) << id)
				:: else -> give_back()
				fi
			}
		:: else -> printf("sweep %d: token %d is alive, or done with\n", s, tok)
		fi;
		sweep[s].token = 0; sweep[s].at = idle
	}
}

#define SEES_LEASE(s, l) :: suspect(s, l) :: judge(s, l)

proctype Sweeper(byte s) {
end:	do
	:: choose(s, 1)
	:: choose(s, 2)
	:: choose(s, 3)
	:: claim(s)
	:: publish(s, 1)
	:: publish(s, 0)
	:: publish(s, 2)
	SEES_LEASE(s, 1)
	SEES_LEASE(s, 2)
	SEES_LEASE(s, 3)
	SEES_LEASE(s, 4)
	SEES_LEASE(s, 5)
#if TOKENS > 5
	SEES_LEASE(s, 6)
	SEES_LEASE(s, 7)
#endif
	:: rescue(s)
	od
}
