/* doctor_checks.h: what `vramgc doctor` looks at. Each tells what it finds, and changes nothing. */
#pragma once

#include <sys/types.h>

/* The library, LD_PRELOAD, settings, the state folder, container, WSL. */
void doctor_host(void);

/* The driver, the cards, and whether they are proven; and whether the driver is new enough for a
 * PyTorch that is made for this CUDA ("": not known). */
void doctor_cards(const char *torch_cuda);

/* PyTorch's setting for its allocator. */
void doctor_allocator(void);

/* Processes of this user that use CUDA without the library; ancestor: only those that it started,
 * 0: all. To be called often while a program runs: each is told once. How many are told so far. */
size_t doctor_processes(pid_t ancestor);
