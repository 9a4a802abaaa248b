/* Workers: a task starts a lease, and goes through its batch window by window. */

#define me worker[i]

/* The second worker begins beside the first one only: they are alike, and one order will do. */
#define next_idle(i) (i == 0 || worker[0].at != idle)

/* outbox.worker.tasks.send, outbox.store.transitions.start.start, outbox.store.queries.claimed_batch.load */
inline take(i, l, again) {
	d_step {
		me.at == idle && next_idle(i) && lease[l].tasks && (!again || may_fail) ->
		lease[l].tasks = lease[l].tasks - !again;
		faults = faults + again;         /* the broker delivers it once more */
		if
		:: lease[l].is != gone && !lease[l].started ->
			printf("worker %d: starts token %d\n", i, l);
			lease[l].is = held; lease[l].started = 1;
			for (id : 0 .. MAILS - 1) {
				me.left = me.left | ((mail[id].token == l) << id)
			}
			me.token = l; me.holds = 1; me.at = between
		:: else -> printf("worker %d: finds no lease %d to start\n", i, l)
		fi
	}
}

/* outbox.worker.batch.batch_results.Results.record_and_open, outbox.store.transitions.window.advance, outbox.worker.process.retry_writes.until_written
 * The reply to its commit may be lost: then it is made again.
 */
inline advance(i, reply_lost) {
	d_step {
		me.at == between && (!reply_lost || may_fail) ->
		faults = faults + reply_lost;
		tok = me.token;
		for (id : 0 .. MAILS - 1) {
			if
			:: me.result[id] == none
			:: else -> record(i)
			fi
		}
		open_window(i);
		if
		:: reply_lost -> printf("worker %d: and does not know that it was written\n", i)
		:: else ->
			me.left = me.left & ~some;
			for (id : 0 .. MAILS - 1) { me.result[id] = none }
			me.at = (me.window -> open : (me.left -> between : ending))
		fi;
		me.window = (reply_lost -> 0 : me.window)
	}
}

/* outbox.store.transitions.record.record, outbox.store.transitions.record._write, outbox.store.transitions.record._next_status */
inline record(i) {
	ours = mail[id].token == tok && mail[id].status == sending;
	if
	:: ours || (NO_TOKEN_IN_RECORD && mail[id].status == sending) ->
		printf("worker %d: records mail %d under token %d: %e\n", i, id, tok, me.result[id]);
		promise(ours, fenced);
		lease[tok].settled = lease[tok].settled | (1 << id);
		conclude(me.result[id])
	:: else -> record_late(i)
	fi
}

/* outbox.domain.delivery.outcome.decide_outcome */
inline conclude(came) {
	if
	:: came == took -> accept()
	:: came == refused -> end_as(failed)
	:: came == lost_reply -> declare_doubt()
	:: came == unsent -> give_back()
	:: came == put_off ->
		mail[id].attempts++;
		if
		:: mail[id].attempts >= MAX_ATTEMPTS -> end_as(failed)
		:: else -> mail[id].status = pending; mail[id].token = 0
		fi
	fi
}

/* outbox.store.transitions.record._next_status */
inline accept() {
	mail[id].status = sent; mail[id].token = 0; mail[id].due = 0;
	mail[id].unknown_count = 0; mail[id].unknown_token = 0; mail[id].attempts = 0
}

#define in_doubt_of(l) \
	(mail[id].unknown_token == l && (mail[id].status == pending || mail[id].status == unknown))

/* outbox.store.transitions.record._record_late: and whatever was sent and is not recorded, stands in doubt */
inline record_late(i) {
	if
	:: me.result[id] == took && in_doubt_of(tok) ->
		printf("worker %d: settles the doubt of mail %d late\n", i, id);
		accept()
	:: else ->
		printf("worker %d: comes too late for mail %d with: %e\n", i, id, me.result[id]);
		promise(in(lease[tok].settled, id) || (me.result[id] != took && me.result[id] != lost_reply),
		        no_copy_untold)
	fi
}

/* outbox.store.transitions.window._open, outbox.worker.batch.next_window.NextWindow.cut */
inline open_window(i) {
	some = 0; me.window = 0; who = 0;
	for (id : 0 .. MAILS - 1) {
		if
		:: in(me.left, id) && (who < WINDOW || WINDOW_UNBOUNDED) ->
			who++;
			some = some | (1 << id);
			if
			:: mail[id].token == tok && (mail[id].status == claimed || mail[id].status == sending) ->
				printf("worker %d: opens the window of mail %d\n", i, id);
				mail[id].status = sending;
				me.window = me.window | (1 << id)
			:: else
			fi
		:: else
		fi
	}
	who = 0;
	for (id : 0 .. MAILS - 1) { who = who + (mail[id].token == tok && mail[id].status == sending) }
	promise(who <= WINDOW, doubt_fits_the_window)
}

/* outbox.worker.batch.sending.Sending._end: its lease is lost, or for a fault: halt, shutdown, time is up */
inline stop(i) {
	d_step {
		me.at == between && me.left && (may_fail || !me.holds) ->
		printf("worker %d: stops, and will give back the rest\n", i);
		faults = faults + me.holds;
		me.left = 0
	}
}

/* outbox.smtp.body.write_body: before the content and before the final dot the fence is asked
 * outbox.worker.batch.send_window.Window._try, outbox.worker.batch.send_email.EmailSender.send, outbox.worker.batch.result_factory.ResultFactory.give_back
 */
inline check(i, it) {
	d_step {
		me.at == open && in(me.window, it) && !(me.window & ((1 << it) - 1)) ->
		if
		:: me.holds || NO_FENCE_ON_THE_WIRE ->
			printf("worker %d: its lease surely holds, mail %d may go\n", i, it);
			promise(mail[it].token == me.token, fenced_on_the_wire);
			me.mail = it; me.at = checked
		:: else ->
			printf("worker %d: its lease may be lost, nothing more goes\n", i);
			for (id : 0 .. MAILS - 1) {
				me.result[id] = (in(me.window, id) -> unsent : me.result[id])
			}
			me.window = 0; me.left = 0; me.at = between
		fi;
		if
		:: RECORD_FIRST && me.at == checked ->
			tok = me.token; id = it; me.result[id] = took;
			record(i)
		:: else
		fi
	}
}

/* environment: the server takes the mail at its final dot */
inline hand_over(i) {
	d_step {
		me.at == checked ->
		id = me.mail;
		mail[id].copies++;
		printf("worker %d: the server takes mail %d, copies: %d\n", i, id, mail[id].copies);
		promise(mail[id].copies <= 1 + mail[id].declared, never_twice);
		promise(id != HELD_BACK || mail[id].copies <= 1, no_copy_under_hold);
		promise(mail[id].status != failed && mail[id].status != cancelled, status_never_lies);
		me.at = handed_over
	}
}

/* outbox.domain.delivery.reply_table.judge: the reply that came, or did not */
inline reply(i, from, verdict) {
	d_step {
		me.at == from && (verdict == took || may_fail) ->
		id = me.mail;
		printf("worker %d: mail %d, reply: %e\n", i, id, verdict);
		faults = faults + (verdict != took);
		me.result[id] = verdict;
		me.mail = 0;
		me.window = me.window & ~(1 << id);
		me.at = (me.window -> open : between)
	}
}

/* outbox.worker.batch.sending.Sending.finish, outbox.store.transitions.window.finish, outbox.store.control.lease.end */
inline finish(i) {
	d_step {
		me.at == ending ->
		printf("worker %d: is done with token %d\n", i, me.token);
		tok = me.token;
		for (id : 0 .. MAILS - 1) {
			if
			:: mail[id].token == tok -> give_back()
			:: else
			fi
		}
		lease[tok].is = gone; lease[tok].started = 0;
		nudged = NUDGE_TRUSTED;          /* a task that ends sweeps on by itself */
		forget(i)
	}
}

/* outbox.worker.leases.heartbeats.Heartbeats._renew, outbox.store.control.lease.renew */
inline renew(i) {
	d_step {
		me.token && me.at != idle && (lease[me.token].is == run_out || lease[me.token].is == suspected) ->
		printf("worker %d: renews token %d\n", i, me.token);
		lease[me.token].is = held; me.holds = 1
	}
}

/* environment: SIGKILL; the broker may deliver the unfinished task again */
inline crash(i, redelivered) {
	d_step {
		me.token && may_fail ->
		printf("worker %d: is killed; its task is delivered again: %d\n", i, redelivered);
		faults++;
		lease[me.token].tasks = lease[me.token].tasks + redelivered;
		forget(i)
	}
}

/* environment: a process's memory ends with its task; a doubt token nobody holds opens nothing */
inline forget(i) {
	for (id : 0 .. MAILS - 1) {
		me.result[id] = none;
		mail[id].unknown_token = (mail[id].unknown_token == me.token -> 0 : mail[id].unknown_token)
	}
	lease[me.token].settled = 0;
	me.at = idle; me.token = 0; me.holds = 0; me.left = 0; me.window = 0; me.mail = 0
}

#define TAKES(i, l) :: take(i, l, 0) :: take(i, l, 1)

proctype Sender(byte i) {
end:	do
	TAKES(i, 1)
	TAKES(i, 2)
	TAKES(i, 3)
	TAKES(i, 4)
	TAKES(i, 5)
#if TOKENS > 5
	TAKES(i, 6)
	TAKES(i, 7)
#endif
	:: advance(i, 0)
	:: advance(i, 1)
	:: stop(i)
	:: check(i, 0)
	:: check(i, 1)
	:: hand_over(i)
	:: reply(i, handed_over, took)
	:: reply(i, handed_over, lost_reply)
	:: reply(i, checked, lost_reply)
	:: reply(i, checked, put_off)
	:: reply(i, checked, refused)
	:: reply(i, checked, unsent)
	:: finish(i)
	:: renew(i)
	:: crash(i, 0)
	:: crash(i, 1)
	od
}
