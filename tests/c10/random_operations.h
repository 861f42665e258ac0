// Seeded random operations on PyTorch's allocator: what a web UI does to it, but faster and
// stranger.
#pragma once

#include <cstddef>
#include <cstdint>

struct RandomOptions {
    uint64_t seed = 1;
    size_t operations = 1000;
    size_t threads = 1;
    size_t streams = 4;           // 1: the default stream only
    size_t max_bytes = 64u << 20; // the largest allocation
    size_t live = 200;            // about so many tensors are alive
    size_t every = 500;           // check after so many operations
    bool compare = false;         // the check: libvramgc's block table against PyTorch's snapshot
    bool overread = false;        // each check reads past the ends of live blocks
    bool pools = false;           // now and then a thread works in a private pool for a moment
    bool fill = false;            // write to each tensor and check what is in it when it is freed
};

struct RandomResult {
    size_t operations, allocations, ooms, checks, blocks, pending, differences, corrupted;
};

// Works on the calling thread's device (with threads > 1 on threads of its own). All its tensors
// are freed at the end.
RandomResult random_operations(const RandomOptions &options);
