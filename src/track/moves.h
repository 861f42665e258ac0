/* moves.h: whether memory is taken or given just now. Until such a call has been noted the driver
 * counts what the books do not, or the other way round: a reading of the card that is made beside
 * one says nothing of what others hold. Any thread may call each. */
#pragma once

#include <stdint.h>

/* Around a call that may take or give device memory and the note of it. They may be nested. */
void moves_begin(void);
void moves_end(void);

/* Another number after each such call; 0: another thread is in one. */
uint64_t moves_now(void);

/* For a forked child, in which the other threads do not exist any more. */
void moves_forget(void);
