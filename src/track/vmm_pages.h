/* vmm_pages.h: what the shadow heap is told when PyTorch maps and unmaps pages of its expandable
 * segments. Any thread may call. */
#pragma once

#include "base/base.h"

/* [address, +bytes) was mapped, or is about to be unmapped. Other addresses than those of PyTorch's
 * segments change nothing. */
void vmm_pages_changed(uint64_t address, uint64_t bytes, bool map);
