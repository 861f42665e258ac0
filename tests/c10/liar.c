/* A stand-in for libvramgc.so that claims one block which PyTorch does not have, so that a test can
 * show that c10drive's `compare` notices. Nothing else of the library is there. */
#include <stddef.h>
#define VRAMGC_BUILD
#include <vramgc.h>

int vramgc_blocks(int device, struct vramgc_block *out, size_t capacity, size_t *count) {
    (void)device;
    *count = 1;
    if (capacity >= 1) {
        out[0] = (struct vramgc_block){
            .address = 4096, .bytes = 512, .segment_address = 4096, .segment_bytes = 512};
    }
    return 0;
}
