/* answer.h: how a call for memory is answered in mode compact. */
#pragma once

/* PASS: the driver is to be asked. OOM: with out of memory. */
enum serve_answer { SERVE_PASS, SERVE_DONE, SERVE_OOM };
