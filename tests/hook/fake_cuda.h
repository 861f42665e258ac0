/* fake_cuda.h: a runtime and a driver in the test program itself, for what no device does on
 * demand: random refusals of everything, and an address handed out again the moment it is free.
 * It keeps exact sums to compare with. All functions may be called from any thread. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stdint.h>

enum { FAKE_DEVICES = 2 };

/* The bytes that are really held of one device. */
struct fake_sums {
    uint64_t device, pool, managed, pinned, imported, address, physical;
};

/* Puts the fake functions where vramgc looks for the real ones. Before anything else. */
void fake_install(void);

/* Every call that allocates, frees, maps or unmaps fails this often. */
void fake_set_failures(unsigned percent);

/* So much of the device is other processes'. What does not fit beside it is refused, and then half
 * of it goes. */
void fake_set_others(int device, uint64_t bytes);

/* For the calling thread. */
void fake_set_device(int device);

struct fake_sums fake_sums(int device);

/* A random number below limit, of a sequence of the calling thread. */
unsigned fake_random(unsigned limit);
void fake_seed(unsigned seed);

#endif
