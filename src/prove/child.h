/* child.h: what touches the card runs in children that this process outlives: a fault or a hang
 * ends only one of them, and the driver takes back what it had. The parent never calls the driver:
 * what is learned lies in memory that both see. */
#pragma once

#include "base/proof.h"
#include "prove/check.h"

/* ---- which card this is, and whether it is idle enough to be tried ---- */

/* A desktop is left so much to work with. One that got none died:
 * https://github.com/NVIDIA/egl-wayland/issues/185 */
enum { CARD_SPARE_MIB = 512 };

struct prove_card {
    char name[96], bus[32];
    struct proof_key key;
    size_t free_bytes, total_bytes; /* while our own context is there */
    bool simulated;
    bool display;   /* a desktop may live on it */
    bool full;      /* busy, for want of memory */
    bool others;    /* busy, for others use it */
    char user[64];  /* the process that has most of it, and how much; "": none is known */
    char busy[160]; /* why it cannot be tried now; "": it can */
};

/* ---- what is asked ---- */

/* A row of checks.def. */
struct check {
    const char *name, *asked;
    check_function *run;
    enum form from;
    bool alone;
};

/* The longest soak takes 45 s, and its captures may ask for 60 more. tests/gpu counts on two
 * minutes at the most. */
enum { CHECK_LIMIT_S = 110 };

extern const struct check check_table[];
extern const size_t check_count;

/* ---- what is found ---- */

enum { MOST_CHECKS = 24, SAID_BYTES = 512 };

enum state { STATE_OPEN, STATE_RUNNING, STATE_DONE };

struct result {
    _Atomic(enum state) state;
    enum outcome outcome;
    uint64_t ns;
    char said[SAID_BYTES];
};

struct findings {
    int devices;
    int driver_version; /* the newest CUDA that it knows, 1000 * major + 10 * minor; 0: not known */
    struct prove_card card;
    struct result results[MOST_CHECKS];
    struct result park; /* park_trial_run(); it does not count as failed */
    bool unmap_waits;
    size_t failed;
};

/* NULL: no memory. */
struct findings *findings_new(void);

/* The work of a child. */
struct job {
    int device;
    struct findings *findings;
    size_t from;
    void (*run)(const struct job *job);
    void *with;
};

/* Starts it; it ends with its parent, whatever ends that. 0 or less: it cannot be started. */
pid_t child_start(const struct job *job);

/* Runs it to its end, so long at most. False: it ended badly; if it did not end by itself, or not
 * by an exit status, the result says so and is done. */
bool child_run(const struct job *job, unsigned limit_s, struct result *result);
void child_end(struct result *result, enum outcome outcome);

/* How many devices there are; 0 with the reason in card.busy. */
int child_count_devices(struct findings *findings);

/* Fills in the card. False: it cannot be tried, for the reason in card.busy. */
bool child_look(int device, struct findings *findings);

/* Told before each trial, and with its result when it is done. */
typedef void child_tell(const char *name, const char *asked, const struct result *done);

/* Runs the table's rows of the form. False: after the first has failed nothing else is tried. */
bool child_run_checks(int device, struct findings *findings, child_tell *tell);
