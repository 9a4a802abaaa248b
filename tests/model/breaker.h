/* How large the model of the breaker is, and its failing variants: each is 0, or -D makes it 1. */
#ifndef EMAILS
#define EMAILS 4
#endif
#ifndef BATCHES
#define BATCHES 1
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifdef SHORTEST                      /* breadth first: Spin then wants to see every variable */
#define SCRATCH
#else
#define SCRATCH hidden
#endif
#ifndef ONLY                         /* the one promise to look at; 0: all of them */
#define ONLY 0
#endif
#ifndef COUNTED                      /* count the halting replies: where nothing fails they are bounded */
#define COUNTED 0
#endif
#define LIFETIME 2                   /* delays after which an email that is halted ends */
#define MAX_ATTEMPTS 2
#define LIVES (LIFETIME + MAX_ATTEMPTS - 1)  /* halting replies after which it has ended */

/* The last email differs from all others: in its sender and its domain, say. */
#define CLASS_B (1 << (EMAILS - 1))
#define CLASS_A (CLASS_B - 1)
#define ALL (CLASS_A | CLASS_B)
#define ONE_EMAIL 1                  /* of class A: the others of it are innocent */
#define TWO_EMAILS 3

#ifndef HALT_BLAMES_THE_SERVER       /* a halting reply opens the breaker, and its email keeps its place */
#define HALT_BLAMES_THE_SERVER 0
#endif
#ifndef PROBE_TAKES_THE_SAME         /* the probe is the oldest email, and keeps its place */
#define PROBE_TAKES_THE_SAME 0
#endif
#ifndef SUSPECT_CHARGED_AT_ONCE      /* no other email is asked first */
#define SUSPECT_CHARGED_AT_ONCE 0
#endif
#ifndef SUSPICION_FORGOTTEN          /* a suspicion ends with its batch */
#define SUSPICION_FORGOTTEN 0
#endif
#ifndef CLASS_BLAMES_THE_SERVER      /* nobody looks for an email outside of the batch that differs */
#define CLASS_BLAMES_THE_SERVER 0
#endif
#ifndef OUTAGE_IS_A_SUSPICION        /* no session: the email is put off as one that was halted */
#define OUTAGE_IS_A_SUSPICION 0
#endif
#ifndef UNTRIED_END                  /* an email ends by delays that it got without a try */
#define UNTRIED_END 0
#endif
#ifndef PROBE_NOT_ASKED_AGAIN        /* a sweep takes the probe that it saw, without asking again */
#define PROBE_NOT_ASKED_AGAIN 0
#endif
#ifndef PROBER_NOTED_LATE            /* whoever comes last is noted as the prober */
#define PROBER_NOTED_LATE 0
#endif
#ifndef PROBER_OUTLIVES_ITS_LEASE    /* a prober that died keeps all others away */
#define PROBER_OUTLIVES_ITS_LEASE 0
#endif
