/* peer_access.h: which devices may access the memory of which others: pages of the engine are
 * mapped memory, which peer access alone does not open. */
#pragma once

/* One device may access the memory of another from now on. */
void peer_access_enabled(unsigned accessing, unsigned owner);

/* A device has a page engine now; or was reset. */
void peer_access_vm_opened(unsigned device);
void peer_access_reset(unsigned device);
