// real_allocator.cpp: the loop over PyTorch's own caching allocator, apart from bench_real.c so
// that it can be loaded twice: in the program's own namespace, where libvramgc.so is in front, and
// in one that no preloaded object enters.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/PeerToPeerAccess.h>

#include <exception>
#include <time.h>

namespace c10::cuda::_internal {
void setHasPrimaryContext(bool (*function)(DeviceIndex));
}

namespace {
bool has_primary_context(c10::DeviceIndex) {
    return true;
}

double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}
} // namespace

// What libtorch_cuda.so does when torch.cuda starts. 0, or -1.
extern "C" int bench_start() {
    try {
        const int count = c10::cuda::device_count();
        c10::cuda::_internal::setHasPrimaryContext(has_primary_context);
        c10::cuda::detail::init_p2p_access_cache(count);
        c10::cuda::CUDACachingAllocator::init(count);
        c10::cuda::set_device(0);
        return count > 0 ? 0 : -1;
    } catch (const std::exception &) {
        return -1;
    }
}

// Takes a block and gives it back, `count` times. Nanoseconds in all; below 0: an exception.
extern "C" double bench_pairs(size_t bytes, size_t count) {
    try {
        auto *allocator = c10::cuda::CUDACachingAllocator::get();
        const double start = now();
        for (size_t i = 0; i < count; i++) {
            allocator->raw_delete(allocator->raw_alloc(bytes));
        }
        return now() - start;
    } catch (const std::exception &) {
        return -1;
    }
}
