// What libvramgc.so says about the memory, if it is loaded, and how that compares with PyTorch's
// own snapshot. The library is reached through the weak symbols of its public header only.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace view {

bool loaded();

// Every figure of vramgc_snapshot for the device under its field's name with "vramgc." in front;
// empty when not loaded.
std::map<std::string, uint64_t> figures(int device);

struct Comparison {
    size_t blocks, pending, differences;
};

// Compares the block table of libvramgc.so with PyTorch's snapshot: address, bytes, state and
// segment of each block, and the stream of native segments. Prints the first differences; throws
// when the library is not loaded.
Comparison compare(int device);

void mark(const std::string &label);
void reclaim(int device);
void write_report(const std::string &path);

} // namespace view
