// The only file of the driver that includes PyTorch's headers, so that it alone is slow to compile.
#include "allocator.h"
#include "releases.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <set>
#include <thread>
#include <unistd.h>

namespace caching = releases::caching;
using releases::CaptureId_t;
using releases::MempoolId_t;

namespace allocator {

struct Tensor {
    c10::DataPtr data;
    size_t bytes;
    int device;
};

namespace {

constexpr size_t edge_bytes =
    4096; // fill and verify use this much at both ends, however large the tensor is

struct Graph {
    int device;
    MempoolId_t pool;
    cudaGraph_t graph;
};

struct State {
    std::mutex mutex;
    std::vector<std::vector<c10::cuda::CUDAStream>> streams;
    std::vector<Graph> graphs;
    // Addresses of live blocks. Never destroyed: the driver's tensors may outlive all else here.
    std::set<uint64_t> &handed_out = *new std::set<uint64_t>;
    CaptureId_t next_pool = 1;
};
State state;

// The private pool that the thread is in, and the stream it was entered on.
struct Pool {
    MempoolId_t id;
    cudaStream_t stream;
};
thread_local Pool thread_pool;

c10::cuda::CUDAStream stream_of(int device, int stream) {
    if (stream == 0) {
        return c10::cuda::getDefaultCUDAStream(static_cast<c10::DeviceIndex>(device));
    }
    const std::lock_guard<std::mutex> lock(state.mutex);
    auto &streams = state.streams.at(static_cast<size_t>(device));
    while (streams.size() < static_cast<size_t>(stream)) {
        streams.push_back(
            c10::cuda::getStreamFromPool(false, static_cast<c10::DeviceIndex>(device)));
    }
    return streams[static_cast<size_t>(stream) - 1];
}

c10::DeviceIndex here() {
    return c10::cuda::current_device();
}

MempoolId_t new_pool(bool graph) {
    const std::lock_guard<std::mutex> lock(state.mutex);
    const CaptureId_t id = state.next_pool++;
    return graph ? MempoolId_t{id, 0} : MempoolId_t{0, id};
}

// Asks the driver as libtorch does, by name from libcuda.so.1.
bool has_primary_context(c10::DeviceIndex device) {
    using Function = int (*)(int, unsigned *, int *);
    static const auto get_state = reinterpret_cast<Function>(
        dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "cuDevicePrimaryCtxGetState"));
    unsigned flags = 0;
    int active = 0;
    TORCH_CHECK(get_state && get_state(device, &flags, &active) == 0,
                "cuDevicePrimaryCtxGetState failed");
    return active != 0;
}

} // namespace

// What libtorch_cuda.so does when torch.cuda starts.
void init() {
    const int count = c10::cuda::device_count();
    TORCH_CHECK(count > 0, "no CUDA device");
    releases::start(count, has_primary_context);
    state.streams.resize(static_cast<size_t>(count));
    set_device(0);
}

int device_count() {
    return c10::cuda::device_count();
}

void set_device(int device) {
    c10::cuda::set_device(static_cast<c10::DeviceIndex>(device));
}

void set_stream(int stream) {
    c10::cuda::setCurrentCUDAStream(stream_of(here(), stream));
}

int current_device() {
    return here();
}

Owner allocate(size_t bytes) {
    try {
        auto tensor = Owner(new Tensor{caching::get()->allocate(bytes), bytes, here()});
        const std::lock_guard<std::mutex> lock(state.mutex);
        state.handed_out.insert(reinterpret_cast<uint64_t>(tensor->data.get()));
        return tensor;
    } catch (const c10::OutOfMemoryError &) {
        return nullptr;
    }
}

Owner take(size_t bytes) {
    void *memory = nullptr;
    if (cudaMalloc(&memory, bytes) != cudaSuccess) {
        (void)cudaGetLastError();
        return nullptr;
    }
    const auto release = [](void *pointer) { C10_CUDA_CHECK_WARN(cudaFree(pointer)); };
    const c10::Device device(c10::DeviceType::CUDA, here());
    return Owner(new Tensor{c10::DataPtr(memory, memory, release, device), bytes, here()});
}

Owner pin(size_t bytes) {
    void *memory = nullptr;
    if (cudaHostAlloc(&memory, bytes, 0) != cudaSuccess) {
        (void)cudaGetLastError();
        return nullptr;
    }
    const auto release = [](void *pointer) { C10_CUDA_CHECK_WARN(cudaFreeHost(pointer)); };
    const c10::Device device(c10::DeviceType::CPU);
    return Owner(new Tensor{c10::DataPtr(memory, memory, release, device), bytes, here()});
}

void destroy(Tensor *tensor) {
    {
        const std::lock_guard<std::mutex> lock(state.mutex);
        state.handed_out.erase(reinterpret_cast<uint64_t>(tensor->data.get()));
    }
    delete tensor;
}

void *address(const Tensor &tensor) {
    return tensor.data.get();
}

size_t size(const Tensor &tensor) {
    return tensor.bytes;
}

int device(const Tensor &tensor) {
    return tensor.device;
}

void record_stream(Tensor &tensor, int stream) {
    caching::recordStream(tensor.data, stream_of(tensor.device, stream));
}

void empty_cache() {
    caching::emptyCache();
}

void set_caching(bool on) {
    releases::set_caching(on);
}

void set_fraction(double fraction) {
    caching::setMemoryFraction(fraction, here());
}

void configure(const std::string &setting) {
    releases::configure(setting);
}

void pool_begin() {
    TORCH_CHECK(thread_pool.id.second == 0, "this thread is in a pool already");
    const auto owner = std::this_thread::get_id();
    const Pool pool = {new_pool(false), c10::cuda::getCurrentCUDAStream().stream()};
    releases::pool_enter(here(), pool.id, pool.stream,
                         [owner](cudaStream_t) { return std::this_thread::get_id() == owner; });
    thread_pool = pool;
}

void pool_end() {
    TORCH_CHECK(thread_pool.id.second != 0, "this thread is in no pool");
    releases::pool_leave(here(), thread_pool.id, thread_pool.stream);
    releases::pool_release(here(), thread_pool.id);
    thread_pool = {};
}

void capture_begin(bool relaxed) {
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const auto pool = new_pool(true);
    releases::pool_enter(here(), pool, stream,
                         [stream](cudaStream_t other) { return other == stream.stream(); });
    C10_CUDA_CHECK(cudaStreamBeginCapture(stream, relaxed ? cudaStreamCaptureModeRelaxed
                                                          : cudaStreamCaptureModeGlobal));
    releases::mark_capture(here(), true);
    state.graphs.push_back({here(), pool, nullptr});
}

void capture_end() {
    TORCH_CHECK(!state.graphs.empty() && !state.graphs.back().graph, "no capture is going on");
    Graph &graph = state.graphs.back();
    const auto stream = c10::cuda::getCurrentCUDAStream();
    C10_CUDA_CHECK(cudaStreamEndCapture(stream, &graph.graph));
    releases::mark_capture(here(), false);
    releases::pool_leave(here(), graph.pool, stream);
}

void graph_release() {
    TORCH_CHECK(!state.graphs.empty() && state.graphs.back().graph, "there is no finished graph");
    const Graph graph = state.graphs.back();
    state.graphs.pop_back();
    C10_CUDA_CHECK(cudaGraphDestroy(graph.graph));
    releases::pool_release(static_cast<c10::DeviceIndex>(graph.device), graph.pool);
}

void fill(const Tensor &tensor, int byte) {
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const size_t edge = std::min(tensor.bytes, edge_bytes);
    char *begin = static_cast<char *>(tensor.data.get());
    C10_CUDA_CHECK(cudaMemsetAsync(begin, byte, edge, stream));
    C10_CUDA_CHECK(cudaMemsetAsync(begin + (tensor.bytes - edge), byte, edge, stream));
}

bool verify(const Tensor &tensor, int byte) {
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const size_t edge = std::min(tensor.bytes, edge_bytes);
    std::vector<unsigned char> seen(2 * edge, static_cast<unsigned char>(~byte));
    const char *begin = static_cast<const char *>(tensor.data.get());
    C10_CUDA_CHECK(cudaMemcpyAsync(seen.data(), begin, edge, cudaMemcpyDeviceToHost, stream));
    C10_CUDA_CHECK(cudaMemcpyAsync(seen.data() + edge, begin + (tensor.bytes - edge), edge,
                                   cudaMemcpyDeviceToHost, stream));
    C10_CUDA_CHECK(cudaStreamSynchronize(stream));
    return std::all_of(seen.begin(), seen.end(),
                       [byte](unsigned char value) { return value == byte; });
}

// A block that was refused counts as allocated for ever, but nobody has it; and PyTorch alone would
// not have mapped it.
static bool is_handed_out(uint64_t address) {
    const std::lock_guard<std::mutex> lock(state.mutex);
    return state.handed_out.count(address) > 0;
}

// PyTorch alone has so much there, at least: a large block may have a segment of its own, rounded
// up to 2 MiB.
static uint64_t mapped_past_end(const Block &block, uint64_t most_bytes) {
    constexpr uint64_t own_segment_bytes = 10 << 20, step_bytes = 2 << 20;
    const uint64_t left = block.segment_address + block.segment_bytes - block.address - block.bytes;
    const uint64_t rounded_bytes = (step_bytes - block.bytes % step_bytes) % step_bytes;
    return std::min({left, most_bytes,
                     block.expandable && block.bytes >= own_segment_bytes ? rounded_bytes : left});
}

void overread(int device) {
    constexpr uint64_t past_end_bytes = 256 << 10;
    std::vector<unsigned char> seen(past_end_bytes);
    std::set<uint64_t> refused;
    const auto blocks = snapshot(device);
    for (const auto &block : blocks) {
        if (block.state == 1 && !is_handed_out(block.address)) {
            refused.insert(block.address);
        }
    }
    for (const auto &block : blocks) {
        const uint64_t end = block.address + block.bytes;
        const uint64_t bytes = mapped_past_end(block, past_end_bytes);
        const auto next = refused.lower_bound(block.address);
        const bool at_refused = next != refused.end() && *next < end + past_end_bytes;
        if (block.state == 1 && bytes > 0 && !at_refused) {
            C10_CUDA_CHECK(cudaMemcpy(seen.data(), reinterpret_cast<const void *>(end), bytes,
                                      cudaMemcpyDeviceToHost));
        }
    }
}

void synchronize() {
    c10::cuda::device_synchronize();
}

// A function that only the simulated device has; nullptr on a card.
static void *of_simulation(const char *name) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return driver ? dlsym(driver, name) : nullptr;
}

// Whoever waits for it meanwhile waits for ever: then SIGALRM ends the program, also where who
// started us (GNU parallel) ignores it.
void hold(int stream, bool held) {
    const char *patience_ms = std::getenv("C10DRIVE_PATIENCE_MS");
    std::signal(SIGALRM, SIG_DFL);
    alarm(held ? (patience_ms ? std::atoi(patience_ms) / 1000u + 1 : 60) : 0);
    void *found = of_simulation(held ? "simgpu_hold" : "simgpu_release");
    TORCH_CHECK(found, "only the simulated device can hold a stream");
    TORCH_CHECK(reinterpret_cast<int (*)(cudaStream_t)>(found)(stream_of(here(), stream)) == 0,
                "it could not be held");
}

std::pair<uint64_t, uint64_t> memory_info() {
    size_t free = 0, total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    return {free, total};
}

void short_stream(const Tensor &tensor) {
    cudaStream_t stream = nullptr;
    C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    C10_CUDA_CHECK(cudaMemsetAsync(tensor.data.get(), 1, 1, stream));
    C10_CUDA_CHECK(cudaStreamDestroy(stream));
}

// What is in use by the books of the simulated device; 0 on a card.
static uint64_t used_bytes(int device) {
    void *books = of_simulation("simgpu_used_bytes");
    return books ? reinterpret_cast<size_t (*)(int)>(books)(device) : 0;
}

std::map<std::string, uint64_t> statistics(int device) {
    const auto stats = caching::getDeviceStats(static_cast<c10::DeviceIndex>(device));
    const auto calls = releases::calls(stats);
    const auto number = [](int64_t value) { return static_cast<uint64_t>(value); };
    return {
        {"reserved_bytes", number(stats.reserved_bytes[0].current)},
        {"reserved_peak_bytes", number(stats.reserved_bytes[0].peak)},
        {"allocated_bytes", number(stats.allocated_bytes[0].current)},
        {"allocated_peak_bytes", number(stats.allocated_bytes[0].peak)},
        {"active_bytes", number(stats.active_bytes[0].current)},
        {"inactive_split_bytes", number(stats.inactive_split_bytes[0].current)},
        {"segments", number(stats.segment[0].current)},
        {"segments_peak", number(stats.segment[0].peak)},
        {"allocations", number(stats.allocation[0].current)},
        {"num_alloc_retries", number(stats.num_alloc_retries)},
        {"num_ooms", number(stats.num_ooms)},
        {"num_sync_all_streams", number(calls.sync_all_streams)},
        {"num_device_alloc", number(calls.device_allocations)},
        {"num_device_free", number(calls.device_frees)},
        {"device.used_bytes", used_bytes(device)},
    };
}

std::vector<Block> snapshot(int device) {
    std::vector<Block> blocks;
    for (const auto &segment : caching::snapshot().segments) {
        if (segment.device != device) {
            continue;
        }
        auto address = static_cast<uint64_t>(segment.address);
        for (const auto &block : segment.blocks) {
            const uint32_t state = block.allocated ? 1 : block.active ? 2 : 0;
            const auto stream = reinterpret_cast<uint64_t>(segment.stream);
            const auto bytes = static_cast<uint64_t>(block.size);
            blocks.push_back({address, bytes, static_cast<uint64_t>(segment.address),
                              static_cast<uint64_t>(segment.total_size), stream, state,
                              releases::is_expandable(segment), segment.is_large,
                              releases::pool_of(segment)});
            address += bytes;
        }
    }
    std::sort(blocks.begin(), blocks.end(),
              [](const Block &a, const Block &b) { return a.address < b.address; });
    return blocks;
}

} // namespace allocator
