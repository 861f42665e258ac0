// The part of PyTorch's caching allocator that the driver needs, without any header of PyTorch:
// those take many seconds to compile and differ between releases, so only allocator.cpp includes
// them. Streams are small numbers here: 0 is the default stream, 1 to 31 come from PyTorch's own
// stream pool. All sizes are bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace allocator {

// One block as PyTorch's memory snapshot shows it; the states are those of enum VRAMGC_BLOCK_* in
// vramgc.h.
struct Block {
    uint64_t address, bytes;
    uint64_t segment_address, segment_bytes;
    uint64_t stream;
    uint32_t state;
    bool expandable, large;
    uint64_t pool;
};

// A live tensor's storage: what torch.empty would own. Freed with its owner.
struct Tensor;
void destroy(Tensor *tensor);
struct Deleter {
    void operator()(Tensor *tensor) const {
        destroy(tensor);
    }
};
using Owner = std::unique_ptr<Tensor, Deleter>;

void init();
int device_count();

// The device and stream of the calling thread, as torch.cuda.device and torch.cuda.stream set them.
void set_device(int device);
void set_stream(int stream);
int current_device();

// Empty when PyTorch raised out of memory; any other exception passes through.
Owner allocate(size_t bytes);
// The same by a cudaMalloc of our own, as an extension would: nobody retries it.
Owner take(size_t bytes);
// Page-locked host memory, as PyTorch's host allocator takes it.
Owner pin(size_t bytes);
void *address(const Tensor &tensor);
size_t size(const Tensor &tensor);
int device(const Tensor &tensor);

// Tensor.record_stream: the block may be used on this stream too.
void record_stream(Tensor &tensor, int stream);

void empty_cache();
void set_caching(bool on);
void set_fraction(double fraction);
void configure(const std::string &setting);

// Allocations of the calling thread go to a private pool from begin to end, as in
// torch.cuda.use_mem_pool.
void pool_begin();
void pool_end();

// Stream capture with a private pool, as torch.cuda.graph does; release drops the newest graph and
// its pool.
void capture_begin(bool relaxed); // relaxed: other streams may allocate meanwhile
void capture_end();
void graph_release();

// Work that the device does on the current stream of this thread.
void fill(const Tensor &tensor, int byte);
bool verify(const Tensor &tensor, int byte);
void synchronize();

// On the simulated device: a stream's work waits, as for a word of the host's, or goes on.
void hold(int stream, bool held);
// What the device says is free; makes a stream, has it work on the tensor, and destroys it.
std::pair<uint64_t, uint64_t> memory_info();
void short_stream(const Tensor &tensor);

// Reads a little past the end of each live block, as kernels do, as far as its segment goes.
void overread(int device);

std::map<std::string, uint64_t> statistics(int device);
std::vector<Block> snapshot(int device);

} // namespace allocator
