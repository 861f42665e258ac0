// What differs between PyTorch's releases in the allocator's C++ interface, so that allocator.cpp
// is written once. C10_RELEASE is major * 100 + minor; 2.0 to 2.15 are known.
#pragma once

#include <string>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#if C10_RELEASE >= 202
#include <c10/cuda/CUDAAllocatorConfig.h>
#endif
#if C10_RELEASE >= 211
#include <c10/cuda/PeerToPeerAccess.h>
#endif

#include <functional>

// Exported by libc10_cuda.so and called by libtorch_cuda.so when it starts, but in no header of
// c10.
namespace c10::cuda::_internal {
void setHasPrimaryContext(bool (*function)(DeviceIndex));
}

namespace releases {

namespace caching = c10::cuda::CUDACachingAllocator;

#if C10_RELEASE >= 209
using c10::CaptureId_t;
using c10::MempoolId_t;
#else
using c10::cuda::CaptureId_t;
using c10::cuda::MempoolId_t;
#endif

inline void start(int devices, bool (*has_primary_context)(c10::DeviceIndex)) {
#if C10_RELEASE >= 201
    c10::cuda::_internal::setHasPrimaryContext(has_primary_context);
#else
    (void)has_primary_context;
#endif
#if C10_RELEASE >= 211
    c10::cuda::detail::init_p2p_access_cache(devices);
#endif
    caching::init(devices);
}

inline void configure(const std::string &setting) {
#if C10_RELEASE >= 210
    c10::CachingAllocator::setAllocatorSettings(setting);
#else
    caching::setAllocatorSettings(setting);
#endif
}

inline void set_caching(bool on) {
#if C10_RELEASE >= 207
    caching::enable(on);
#else
    TORCH_CHECK(on, "this release cannot switch caching off");
#endif
}

// A private pool, and a graph's. Up to 2.2 whatever is allocated on one stream goes to it; 2.0's
// are told apart by the number of a capture, which the driver does not know how to give.
using Filter = std::function<bool(cudaStream_t)>;

inline void pool_enter([[maybe_unused]] c10::DeviceIndex device, [[maybe_unused]] MempoolId_t pool,
                       [[maybe_unused]] cudaStream_t stream,
                       [[maybe_unused]] const Filter &filter) {
#if C10_RELEASE >= 203
    caching::beginAllocateToPool(device, pool, filter);
#elif C10_RELEASE >= 201
    caching::beginAllocateStreamToPool(device, stream, pool);
#else
    TORCH_CHECK(false, "private pools and graphs of this release cannot be driven");
#endif
}

inline void pool_leave([[maybe_unused]] c10::DeviceIndex device, [[maybe_unused]] MempoolId_t pool,
                       [[maybe_unused]] cudaStream_t stream) {
#if C10_RELEASE >= 203
    caching::endAllocateToPool(device, pool);
#elif C10_RELEASE >= 201
    caching::endAllocateStreamToPool(device, stream);
#endif
}

inline void pool_release(c10::DeviceIndex device, MempoolId_t pool) {
#if C10_RELEASE >= 201
    caching::releasePool(device, pool);
#else
    caching::notifyCaptureDestroy(device, pool);
#endif
}

inline void mark_capture(c10::DeviceIndex device, bool begin) {
#if C10_RELEASE >= 215
    begin ? caching::markCaptureBegin(device) : caching::markCaptureEnd(device);
#else
    (void)device;
    (void)begin;
#endif
}

// Figures and facts that older releases do not have are 0 there.
struct Calls {
    int64_t sync_all_streams, device_allocations, device_frees;
};

template <typename Stats> Calls calls(const Stats &stats) {
#if C10_RELEASE >= 203
    return {stats.num_sync_all_streams, stats.num_device_alloc, stats.num_device_free};
#else
    (void)stats;
    return {};
#endif
}

template <typename Segment> bool is_expandable(const Segment &segment) {
#if C10_RELEASE >= 201
    return segment.is_expandable;
#else
    (void)segment;
    return false;
#endif
}

template <typename Segment> uint64_t pool_of(const Segment &segment) {
#if C10_RELEASE >= 201
    return segment.owner_private_pool_id.first + segment.owner_private_pool_id.second;
#else
    (void)segment;
    return 0;
#endif
}

} // namespace releases
