/* driver_calls.h: the driver as `vramgc prove` calls it: looked up when it runs, for the command
 * must start where there is none. It must call the driver's own functions, never a hook's. */
#pragma once

#include "base/base.h"
#include "cuda/cuda_api.h"

/* In a function that gives the first error. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        CUresult try_result = (call);                                                              \
        if (try_result != CUDA_SUCCESS)                                                            \
            return try_result;                                                                     \
    } while (0)

struct prove_driver {
#define NEED(symbol) __typeof__(&symbol) symbol;
#define MAY          NEED
#include "prove/driver.def"
};

extern struct prove_driver cu;

/* Opens libcuda.so.1 and finds its functions, also for the page engine. NULL, or in one line what
 * is missing. Calls nothing of the driver. */
const char *driver_load(void);

/* A function of the driver by its name; NULL: it has none. */
void *driver_symbol(const char *symbol);

/* Is it the simulated device, and how many wrong uses has that reported so far? */
bool driver_is_simulated(void);
unsigned long driver_errors(void);

/* Context of the device in the calling thread, made where it is the first. */
CUresult driver_open(int device);
CUresult driver_bind(void);
CUcontext driver_context(void);
int driver_device(void);

const char *driver_error_name(CUresult result);
