/* errors.h: raises the out-of-memory error of PyTorch itself, the one that Python sees as
 * torch.OutOfMemoryError, out of what PyTorch's libraries and the C++ runtime export. */
#pragma once

#include <stdbool.h>

/* Looks for what is needed, once it has found it never again. Whether an error can be raised.
 * May wait for the loader: for a thread of our own, or where nothing was loaded before. */
bool errors_find(void);

/* Raises it. Comes back only if errors_find has not found all. To be called through functions that
 * were compiled with -fexceptions. */
void errors_throw_out_of_memory(const char *message);

/* Another error, as PyTorch itself raises it for a call that failed with that number. The same
 * holds for it. */
void errors_throw_cuda(int code);
