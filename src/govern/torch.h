/* torch.h: which PyTorch the process has, and on what. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The newest PyTorch whose block events were compared with its own counters (2.0 ... 2.15: 16
 * releases, all the same), and the oldest. */
#define TORCH_OLDEST 2, 0
#define TORCH_NEWEST 2, 15

struct torch_version {
    unsigned long major, minor;
};

/* Reads a version such as "2.5.1+cu124". False, with *out unchanged: it is none. Pure. */
bool torch_parse(const char *text, struct torch_version *out);

/* Whether *version is major.minor or newer. Pure. */
bool torch_at_least(const struct torch_version *version, unsigned long major, unsigned long minor);

/* Reads __version__ out of a torch/version.py. False: not found. */
bool torch_read_version(const char *path, char *out, size_t capacity);

/* The version of the PyTorch that is loaded: from the version.py beside its libraries. "": not
 * loaded, or not to be told. */
void torch_find_version(char *out, size_t capacity);

/* Whether comfy-aimdo is loaded, ComfyUI's manager of weights: it fills the device with them and
 * takes them away when memory is asked for by cuMemAlloc or cuMemAllocAsync, not when it is by
 * cuMemCreate.
 */
bool torch_has_aimdo(void);

/* Under WSL drivers before R615 say that they can map memory, and then fail to (PyTorch #192330).
 */
bool torch_on_wsl(void);

/* How many addresses the process may take (ulimit -v). UINT64_MAX: as many as there are. */
uint64_t torch_addresses_bytes(void);
