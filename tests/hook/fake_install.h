/* fake_install.h: what the two halves of the fake device share: putting a function where vramgc
 * looks for the real one. */
#ifndef FAKE_INSTALL_H
#define FAKE_INSTALL_H

#include "hook/hook.h"

/* Does not compile unless fake_symbol has the type of the real one. */
#define INSTALL(symbol)                                                                            \
    do {                                                                                           \
        real_##symbol##_t function = fake_##symbol;                                                \
        atomic_store(&real_pointers[ID_##symbol], (void *)(uintptr_t)function);                    \
    } while (0)

void fake_install_runtime(void);

#endif
