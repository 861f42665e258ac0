/* vramgc.h: what a program may ask of a loaded libvramgc.so. Nothing here has to be linked: all
 * symbols are weak, so test a function's address before calling it, or use dlsym or ctypes.
 * All functions may be called from any thread, never throw, never call Python and never wait for
 * the GPU. Sizes are bytes. */
#ifndef VRAMGC_H
#define VRAMGC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VRAMGC_VERSION_NUMBER 100 /* major * 10000 + minor * 100 + patch */

#if defined(VRAMGC_BUILD)
#define VRAMGC_API __attribute__((visibility("default")))
#else
#define VRAMGC_API __attribute__((weak))
#endif

/* The state of one device as vramgc sees it. Fields are added at the end, never changed; the
 * meaning of each figure is that of src/stats.def. */
struct vramgc_snapshot {
    size_t size; /* the caller sets it to sizeof(struct vramgc_snapshot); then: what is filled */
    uint64_t held_bytes, reserved_bytes, allocated_bytes, active_bytes;
    uint64_t inactive_split_bytes, releasable_bytes, idle_bytes, largest_hole_bytes;
    uint64_t segments, blocks, reclaims, refusals, soft_ooms, flushes;
};

enum { VRAMGC_BLOCK_FREE, VRAMGC_BLOCK_ALLOCATED, VRAMGC_BLOCK_PENDING };

/* One run of bytes in a segment of PyTorch's allocator. */
struct vramgc_block {
    uint64_t address, bytes;
    uint64_t segment_address, segment_bytes; /* expandable: the contiguous mapped run */
    uint64_t stream;                         /* native segments; 0 is also the default stream */
    uint32_t state, expandable;
};

/* The version of the loaded library as VRAMGC_VERSION_NUMBER. */
VRAMGC_API int vramgc_version(void);

/* Fills *out, which may not be NULL, as far as out->size goes; what the library does not know is
 * left as it was. 0, or -1 when the device is unknown or out->size too small for one figure. */
VRAMGC_API int vramgc_snapshot(int device, struct vramgc_snapshot *out);

/* Copies up to `capacity` blocks in address order into `out` (may be NULL when capacity is 0) and
 * stores in *count (not NULL) how many there are. 0, or -1 when the device is unknown. */
VRAMGC_API int vramgc_blocks(int device, struct vramgc_block *out, size_t capacity, size_t *count);

/* Puts a named point on the timeline; label is cut after 47 bytes and may not be NULL.
 * 0, or -1 when nothing is being recorded. */
VRAMGC_API int vramgc_mark(const char *label);

/* Asks for one reclaim of the device, done soon by vramgc's own thread. 0, or -1 when the device
 * is unknown or the mode does not allow it. */
VRAMGC_API int vramgc_reclaim(int device);

/* Writes the statistics so far to a new file, to be read by `vramgc report`; path is not NULL.
 * 0, or -1 with errno set; an existing file is not overwritten (EEXIST). */
VRAMGC_API int vramgc_write_report(const char *path);

#ifdef __cplusplus
}
#endif
#endif
