/* fabric.h: the answer to PyTorch's allocator where it looks for NVML's fabric query. */
#pragma once

/* As hook_dlsym in lookup.h; NULL: the real dlsym answers. */
void *fabric_lookup(void *handle, const char *name, const void *caller);
