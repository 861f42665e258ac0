/* peers.h: a check: copies to another device. A row of check_table.c. */
#ifndef PROVE_PEERS_H
#define PROVE_PEERS_H

#include "prove/check.h"

enum outcome check_peers(struct text *said);

#endif
