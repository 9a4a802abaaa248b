/* How large the model is, and the failing variants: each is 0, or -D makes it 1. */
#define MAILS 2
#define WORKERS 2
#define SWEEPS 2
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef WINDOW
#define WINDOW 1
#endif
#if FAULTS > 2                       /* more are never in use at once: the model asserts it */
#define TOKENS 7
#else
#define TOKENS 5
#endif
#ifndef WITHDRAW
#define WITHDRAW 1
#endif
#ifdef SHORTEST                      /* breadth first: Spin then wants to see every variable */
#define SCRATCH
#else
#define SCRATCH hidden
#endif
#ifndef ONLY                         /* the one promise to look at; 0: all of them */
#define ONLY 0
#endif
#define MAX_UNKNOWN 3
#define MAX_ATTEMPTS 3

#ifndef NO_TOKEN_IN_RECORD           /* a result is written on the status alone */
#define NO_TOKEN_IN_RECORD 0
#endif
#ifndef CLAIM_STAYS_DUE              /* a claimed mail still fulfils the claim's own predicate */
#define CLAIM_STAYS_DUE 0
#endif
#ifndef CLAIM_UNGUARDED              /* what was seen to be due is claimed without asking again */
#define CLAIM_UNGUARDED 0
#endif
#ifndef RESCUE_UNCHECKED             /* a lease that was seen run out is judged without asking again */
#define RESCUE_UNCHECKED 0
#endif
#ifndef RESCUE_BLIND                 /* a lease is judged though it holds */
#define RESCUE_BLIND 0
#endif
#ifndef RESCUE_WITHOUT_DOUBT         /* what a lost worker was sending is given back as unsent */
#define RESCUE_WITHOUT_DOUBT 0
#endif
#ifndef DEATH_GUESSED                /* a worker that is not seen is taken for dead at once */
#define DEATH_GUESSED 0
#endif
#ifndef NUDGE_TRUSTED                /* a sweep comes only when it was nudged */
#define NUDGE_TRUSTED 0
#endif
#ifndef RECORD_FIRST                 /* `sent` is recorded before the server's 250 */
#define RECORD_FIRST 0
#endif
#ifndef NO_FENCE_ON_THE_WIRE         /* a worker does not ask whether its lease holds */
#define NO_FENCE_ON_THE_WIRE 0
#endif
#ifndef WINDOW_UNBOUNDED             /* the window is the whole batch */
#define WINDOW_UNBOUNDED 0
#endif
#ifndef DOUBT_FORGOTTEN              /* a mail in doubt ends as any other */
#define DOUBT_FORGOTTEN 0
#endif
