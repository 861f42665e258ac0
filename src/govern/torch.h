/* torch.h: which PyTorch the process has, on what, and the setting of its allocator: expandable
 * segments are chosen where nobody chose for or against them. That has to be in the environment
 * before PyTorch's allocator reads it, which is at its first use, after cuInit. */
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

/* *version is major.minor or newer. Pure. */
bool torch_at_least(const struct torch_version *version, unsigned long major, unsigned long minor);

/* Reads __version__ out of a torch/version.py. False: not found. */
bool torch_read_version(const char *path, char *out, size_t capacity);

/* The version of the PyTorch that is loaded: from the version.py beside its libraries. "": not
 * loaded, or not to be told. */
void torch_find_version(char *out, size_t capacity);

/* Is comfy-aimdo loaded, ComfyUI's manager of weights? It fills the device with them and
 * takes them away when memory is asked for by cuMemAlloc or cuMemAllocAsync, not when it is by
 * cuMemCreate.
 */
bool torch_has_aimdo(void);

/* Under WSL drivers before R615 say that they can map memory, and then fail to (PyTorch #192330).
 */
bool torch_on_wsl(void);

/* How many addresses the process may take (ulimit -v). UINT64_MAX: as many as there are. */
uint64_t torch_addresses_bytes(void);

/* ---- the allocator's setting ---- */

struct alloc_conf {
    char value[256]; /* what PyTorch will read; "" for nothing */
    char why[128];   /* one phrase: who chose it and why */
    char torch[32];  /* PyTorch's version, "" if it could not be told */
};

/* wish as in VRAMGC_ALLOC_CONF; of_machine: what the machine has against expandable segments, a
 * phrase, or NULL. Called once, after cuInit; may change the environment. What it has chosen in a
 * parent process does not count here. */
void alloc_conf_apply(const char *wish, const char *of_machine, struct alloc_conf *out);

/* This process has expandable segments because alloc_conf_apply added them. */
bool alloc_conf_chose_expandable(void);

/* Are expandable segments known to be sound in a version such as "2.5.1+cu124"? From shared
 * experience with 2.1 ... 2.15: they exist from 2.1 on; 2.13 refuses to work on cards whose driver
 * does not answer the fabric query, so it is left out. In a newer one mode compact does better
 * without them: see mode_table.c. Pure. */
bool alloc_conf_is_sound(const char *torch_version);

/* The setting with expandable segments, in smaller steps where step says that PyTorch has them and
 * the setting names none, and without max_split_size_mb. False: it is so already, or
 * says that they are not wanted, or chooses another backend, or does not fit into capacity bytes.
 * setting and out may not be NULL. Pure. */
bool alloc_conf_with_choice(const char *setting, bool step, char *out, size_t capacity);

/* Does a setting of PyTorch's allocator, such as "max_split_size_mb:512, backend: native", give
 * that value, or (NULL) any, to that name, by PyTorch's own rules: blanks do not count? Pure. */
bool alloc_conf_says(const char *setting, const char *name, const char *value);
