/* answer.h: how a call for memory is answered in mode compact. */
#ifndef ANSWER_H
#define ANSWER_H

/* PASS: the driver is to be asked. OOM: with out of memory. */
enum serve_answer { SERVE_PASS, SERVE_DONE, SERVE_OOM };

#endif
