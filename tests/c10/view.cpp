// See view.h. Differences are printed as "+ ..." for what only PyTorch has and "- ..." for what
// only libvramgc.so has.
#include "view.h"

#include "allocator.h"

#include <vramgc.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace view {

namespace {

constexpr size_t most_printed = 10;

void demand(const void *function, const char *name) {
    if (!function) {
        throw std::runtime_error(std::string(name) + ": libvramgc.so is not loaded");
    }
}

std::vector<vramgc_block> own_blocks(int device) {
    demand(reinterpret_cast<const void *>(vramgc_blocks), "vramgc_blocks");
    std::vector<vramgc_block> blocks;
    size_t count = 0;
    do {
        blocks.resize(count);
        if (vramgc_blocks(device, blocks.data(), blocks.size(), &count) != 0) {
            return {}; // no memory of this device has been used yet
        }
    } while (count > blocks.size());
    blocks.resize(count);
    return blocks;
}

// The stream of an expandable segment cannot be seen from outside when its pages are mapped, so it
// is not compared.
bool same(const allocator::Block &a, const vramgc_block &b) {
    return a.address == b.address && a.bytes == b.bytes && a.state == b.state &&
           a.segment_address == b.segment_address && a.segment_bytes == b.segment_bytes &&
           a.expandable == (b.expandable != 0) && (a.expandable || a.stream == b.stream);
}

template <typename Block> void print(const char *sign, const Block &block) {
    std::printf("%s 0x%" PRIx64 " bytes %" PRIu64 " state %u segment 0x%" PRIx64 " bytes %" PRIu64
                " stream 0x%" PRIx64 " expandable %d\n",
                sign, block.address, block.bytes, block.state, block.segment_address,
                block.segment_bytes, block.stream, static_cast<int>(block.expandable));
}

// Both lists are in address order; a merge finds what only one of them has.
size_t differences(const std::vector<allocator::Block> &theirs,
                   const std::vector<vramgc_block> &ours) {
    size_t found = 0;
    size_t i = 0;
    size_t j = 0;
    while (i < theirs.size() || j < ours.size()) {
        if (i < theirs.size() && j < ours.size() && same(theirs[i], ours[j])) {
            i++;
            j++;
            continue;
        }
        const bool first =
            j == ours.size() || (i < theirs.size() && theirs[i].address <= ours[j].address);
        const bool second =
            i == theirs.size() || (j < ours.size() && ours[j].address <= theirs[i].address);
        if (found++ < most_printed) {
            first ? print("+", theirs[i]) : print("-", ours[j]);
            if (first && second) {
                print("-", ours[j]);
            }
        }
        i += first;
        j += second;
    }
    return found;
}

} // namespace

bool loaded() {
    return vramgc_version != nullptr;
}

std::map<std::string, uint64_t> figures(int device) {
    if (!vramgc_snapshot) {
        return {};
    }
    struct vramgc_snapshot s = {};
    s.size = sizeof s;
    if (::vramgc_snapshot(device, &s) != 0) {
        return {};
    }
    return {
        {"vramgc.held_bytes", s.held_bytes},
        {"vramgc.reserved_bytes", s.reserved_bytes},
        {"vramgc.allocated_bytes", s.allocated_bytes},
        {"vramgc.active_bytes", s.active_bytes},
        {"vramgc.inactive_split_bytes", s.inactive_split_bytes},
        {"vramgc.releasable_bytes", s.releasable_bytes},
        {"vramgc.idle_bytes", s.idle_bytes},
        {"vramgc.largest_hole_bytes", s.largest_hole_bytes},
        {"vramgc.segments", s.segments},
        {"vramgc.blocks", s.blocks},
        {"vramgc.reclaims", s.reclaims},
        {"vramgc.refusals", s.refusals},
        {"vramgc.soft_ooms", s.soft_ooms},
        {"vramgc.flushes", s.flushes},
    };
}

Comparison compare(int device) {
    const auto theirs = allocator::snapshot(device);
    const auto ours = own_blocks(device);
    Comparison result = {theirs.size(), 0, differences(theirs, ours)};
    for (const auto &block : theirs) {
        result.pending += block.state == VRAMGC_BLOCK_PENDING;
    }
    return result;
}

void mark(const std::string &label) {
    demand(reinterpret_cast<const void *>(vramgc_mark), "vramgc_mark");
    if (vramgc_mark(label.c_str()) != 0) {
        throw std::runtime_error("vramgc_mark: nothing is being recorded");
    }
}

void reclaim(int device) {
    demand(reinterpret_cast<const void *>(vramgc_reclaim), "vramgc_reclaim");
    if (vramgc_reclaim(device) != 0) {
        throw std::runtime_error("vramgc_reclaim: refused");
    }
}

void write_report(const std::string &path) {
    demand(reinterpret_cast<const void *>(vramgc_write_report), "vramgc_write_report");
    if (vramgc_write_report(path.c_str()) != 0) {
        throw std::runtime_error("vramgc_write_report: " + path + ": " + std::strerror(errno));
    }
}

} // namespace view
