/* peer_programs.h: several programs of a user on one card, each under vramgc: before one runs out
 * of memory the others give what they have idle. No daemon: peer_file.h. */
#pragma once

#include "track/device.h"

/* As recording begins, before there is a thread of ours; the process ends; for a forked child. */
void peers_begin(void);
void peers_end(void);
void peers_forget(void);

/* The driver has refused a thread of the program so many bytes of the device, which is current, and
 * nothing of this process's own would do: asks others that have enough idle, for 200 ms at most.
 * True: somebody gave, so that asking the driver again may help. Any thread; no lock of ours is
 * held. */
bool peers_after_oom(struct device *device, uint64_t bytes);

/* --- for our own thread that looks --- */

/* Before and after each look: what others want of this process, which peers_asker tells in between;
 * what has been given, and what could be. asked: wakeup_count before the look. */
void peers_look_begins(void);
void peers_look_ends(unsigned asked);

/* The process that wants idle memory of the device; 0: none. */
uint64_t peers_asker(const struct device *device);
