/* phases.h: what a Python function is part of: rows of the user's own, then phases.def. It
 * knows names only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The module of a file. Of a package: its name, as "torch.nn.modules.module". Of a program, of
 * which nobody knows where it looks for its modules: the path from its root on (a folder; "":
 * none), with dots, one of them in front. Such a module fits a pattern that any end of it fits:
 * "networks" fits
 * ".extensions-builtin.Lora.networks". */
void phases_module(const char *path, const char *root, char *out, size_t capacity);

/* PyTorch's own modules, those that run programs, and what a web UI puts around each layer: such a
 * function says nothing. */
bool phases_is_machinery(const char *module, const char *function);

/* The phase of a function, "" for none. */
const char *phases_find(const char *module, const char *function);

/* Adds the rows of a text: PHASE MODULE FUNCTION a line, blanks between; the phase may have some
 * itself. Empty lines and those that begin with # mean nothing. Returns how many lines could not be
 * taken, the number of the first in *first. Before anything is looked for. */
size_t phases_add(const char *text, size_t *first);

/* The same from a file of the user's; what cannot be read, or understood, is told in one warning,
 * and is no loss. Not where a thread of the program waits. */
void phases_read_file(const char *path);
