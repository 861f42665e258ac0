/* recorder.c: see recorder.h and vramgc_recording.h. Only one device is recorded, the first that
 * has blocks, so that its lock is the only one that is needed. It must cost next to nothing: an
 * event is a word, stored in order, and the count of words after it. */
#include "track/recorder.h"

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "cuda/objects.h"
#include "python/frames.h"
#include "python/names.h"
#include "track/process_state.h"

#include <sys/mman.h>

enum { MAX_STREAMS = 256, STREAM_BY_NOTE = 3 };

/* c10::cuda::CUDAStream, as the calling convention returns it: device and type, then a number that
 * is another for each stream. */
struct current_stream {
    uint64_t device;
    int64_t id;
};
typedef struct current_stream (*current_stream_t)(signed char device);

_Atomic(struct vramgc_recording *) recorder_file;

static struct {
    struct vramgc_recording_half *half; /* the one that is written */
    uint64_t *words;                    /* its words */
    _Atomic(struct device *) device;
    current_stream_t current_stream; /* NULL: PyTorch has no such function: all are one */
    int64_t streams[MAX_STREAMS];    /* by number */
    uint64_t stream_count, noted_stream;
    atomic_bool several_streams;
    uint64_t events, jobs;
    uint64_t noted_pool;
    _Atomic uint64_t captured_pool; /* of the graph that is captured now */
} self;

/* Of one thread: the pool that its blocks are of; and whose capture it is about to begin. */
static THREAD_LOCAL struct { uint64_t pool, asked, graph, graph_pool; } here;

static struct vramgc_recording *file_now(void) {
    return atomic_load_explicit(&recorder_file, memory_order_acquire);
}

static struct vramgc_recording *map_file(const char *path) {
    const size_t bytes = VRAMGC_RECORDING_HEAD + settings_standards()->record_bytes;
    void *p = MAP_FAILED;
    int fd = file_open(path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    int error = fd < 0 ? errno : file_allot(fd, bytes);
    if (!error && (p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED)
        error = errno;
    if (fd >= 0)
        close(fd);
    if (error) {
        LOG(LOG_WARN, "cannot record blocks in %s: %s", path, strerrordesc_np(error));
        if (fd >= 0)
            unlink(path);
    }
    return error ? NULL : p;
}

static void begin_half(struct vramgc_recording *file, size_t which) {
    struct vramgc_recording_half *half = &file->halves[which];
    uint64_t turn = self.half ? self.half->turn + 1 : 1;
    figure_set(&half->written, 0);
    half->events_before = self.events;
    half->jobs_before = self.jobs;
    __atomic_store_n(&half->turn, turn, __ATOMIC_RELEASE);
    self.half = half;
    self.words = (uint64_t *)((char *)file + VRAMGC_RECORDING_HEAD) + which * file->half_words;
    self.noted_stream = UINT64_MAX;
    self.noted_pool = 0;
}

void recorder_open(void) {
    TEXT_OVER(text, path, 2048 + 16);
    text_format(&text, "%s.blocks", store_path());
    struct vramgc_recording *file = *store_path() ? map_file(path) : NULL;
    if (!file)
        return;
    file->head_bytes = sizeof *file;
    file->pid = store_file()->pid;
    file->started_ns = store_file()->started_ns;
    file->half_words = settings_standards()->record_bytes / sizeof(uint64_t) / 2;
    objects_path("libc10_cuda.so", 0, file->allocator, sizeof file->allocator);
    *(void **)&self.current_stream =
        real_in_object(file->allocator, "_ZN3c104cuda20getCurrentCUDAStreamEa");
    self.stream_count = 1; /* PyTorch's number of the default stream is 0, too */
    begin_half(file, 0);
    memcpy(file->magic, VRAMGC_RECORDING_MAGIC, sizeof file->magic);
    atomic_store_explicit(&recorder_file, file, memory_order_release);
}

void recorder_forget(void) {
    atomic_store(&recorder_file, NULL);
}

/* ---- words; the device's lock is held ---- */

static void put_word(uint64_t word) {
    uint64_t at = self.half->written;
    figure_set(&self.words[at], word);
    __atomic_store_n(&self.half->written, at + 1, __ATOMIC_RELEASE);
}

static uint64_t word_of_block(enum vramgc_word kind, uint64_t stream, uint64_t address,
                              uint64_t bytes) {
    return kind | stream << 2 | bytes / VRAMGC_RECORDING_UNIT << 4 |
           address / VRAMGC_RECORDING_UNIT << 32;
}

static void put_note(enum vramgc_note kind, uint64_t value) {
    put_word(VRAMGC_WORD_NOTE | (uint64_t)kind << 2 | value << 8);
}

/* The next event cannot be told in words. */
static void stop_recording(struct vramgc_recording *file) {
    file->incomplete = 1;
    recorder_forget();
}

static bool fits_word(struct vramgc_recording *file, uint64_t bytes) {
    if (LIKELY(bytes >> 28 < VRAMGC_RECORDING_UNIT))
        return true;
    stop_recording(file);
    return false;
}

/* A half holds two notes beside each event at most. */
static bool has_room(const struct vramgc_recording *file) {
    return LIKELY(self.half->written + 3 <= file->half_words);
}

/* With so many live blocks there would be no room for what happens to them. */
static bool put_live(const struct heap_run *run, void *context) {
    struct vramgc_recording *file = context;
    if (run->state != HEAP_ALLOCATED)
        return true;
    put_word(word_of_block(VRAMGC_WORD_LIVE, 0, run->address, run->bytes));
    bool room = self.half->written < file->half_words / 2;
    if (!room)
        stop_recording(file);
    return room;
}

static void turn_half(struct vramgc_recording *file, struct device *device) {
    begin_half(file, self.half == &file->halves[0] ? 1 : 0);
    heap_walk(device->heap, put_live, file);
}

/* Before what it is true of. A capture's blocks may be of any thread: of autograd's, too. */
static void put_pool(void) {
    uint64_t captured = atomic_load_explicit(&self.captured_pool, memory_order_relaxed);
    uint64_t pool = here.pool ? here.pool : captured;
    if (UNLIKELY(pool != self.noted_pool))
        put_note(VRAMGC_NOTE_POOL, self.noted_pool = pool);
}

static uint64_t number_of_stream(int64_t id) {
    uint64_t i = 0;
    while (i < self.stream_count && self.streams[i] != id)
        i++;
    if (UNLIKELY(i == self.stream_count) && i < MAX_STREAMS - 1)
        self.streams[self.stream_count++] = id;
    return i;
}

void recorder_stream_made(void) {
    atomic_store_explicit(&self.several_streams, true, memory_order_relaxed);
}

/* The stream's number in the word of a block: another than the first few is noted before. PyTorch
 * takes 16 ns to tell: it is asked only where there are any streams but the default one, number 0.
 */
static uint64_t stream_here(const struct vramgc_recording *file) {
    if (!atomic_load_explicit(&self.several_streams, memory_order_relaxed) || !self.current_stream)
        return 0;
    uint64_t number = number_of_stream(self.current_stream((signed char)file->device).id);
    if (LIKELY(number < STREAM_BY_NOTE))
        return number;
    if (number != self.noted_stream)
        put_note(VRAMGC_NOTE_STREAM, number);
    self.noted_stream = number;
    return STREAM_BY_NOTE;
}

/* The first device that has blocks is the one. */
static bool is_recorded(struct vramgc_recording *file, struct device *device) {
    struct device *recorded = atomic_load_explicit(&self.device, memory_order_relaxed);
    if (LIKELY(recorded == device))
        return true;
    if (!recorded && atomic_compare_exchange_strong(&self.device, &recorded, device)) {
        file->device = device_index(device);
        return true;
    }
    figure_set(&file->other_devices, 1);
    return false;
}

void recorder_block(struct device *device, uint64_t address, int64_t bytes, bool pending) {
    struct vramgc_recording *file = file_now();
    uint64_t size = (uint64_t)(bytes > 0 ? bytes : -bytes);
    if (!file || !is_recorded(file, device) || !fits_word(file, size))
        return;
    self.events++;
    if (UNLIKELY(!has_room(file))) {
        turn_half(file, device); /* the heap knows of this event already */
    } else if (bytes > 0) {
        put_pool();
        put_word(word_of_block(VRAMGC_WORD_ALLOC, stream_here(file), address, size));
    } else {
        put_word(word_of_block(VRAMGC_WORD_FREE, pending, address, size));
    }
}

void recorder_completed(struct device *device, uint64_t address) {
    struct vramgc_recording *file = file_now();
    if (file && is_recorded(file, device) && has_room(file))
        put_note(VRAMGC_NOTE_COMPLETED, address / VRAMGC_RECORDING_UNIT << 24);
}

void recorder_note(struct device *device, enum vramgc_note kind, uint64_t value) {
    struct vramgc_recording *file = file_now();
    device = device ? device : atomic_load(&self.device);
    if (!file || !device)
        return;
    LOCKED(&device->lock);
    if (kind == VRAMGC_NOTE_JOB)
        self.jobs++;
    if (is_recorded(file, device) && has_room(file)) {
        put_pool();
        put_note(kind, value);
    }
}

bool recorder_has_blocks(unsigned device) {
    const struct vramgc_recording *file = file_now();
    return file && file->device == device && file->halves[0].written > 0;
}

void recorder_fraction(double fraction) {
    struct vramgc_recording *file = file_now();
    if (file)
        file->fraction = fraction;
}

/* ---- private pools ---- */

/* By torch.cuda.use_mem_pool, whose innermost frames are few. */
static bool is_for_use(void) {
    char name[64] = "";
    uint64_t frame = atomic_load(&names_on) ? frames_innermost() : 0;
    for (int i = 0; i < 4 && frame && strcmp(name, "use_mem_pool") != 0;
         i++, frame = frames_outer(frame))
        if (frames_code(frame))
            frames_name(frames_code(frame), name, sizeof name);
    return strcmp(name, "use_mem_pool") == 0;
}

/* Of pools within each other PyTorch takes the outer one. */
void recorder_pool_asked(pool_id_t id) {
    uint64_t pool = recorder_pool(id);
    if (!recorder_is_on() || (here.pool && here.pool != pool) || !is_for_use())
        return;
    here.asked = (here.asked + 1) % 3; /* it begins, it ends, it lets the pool go */
    here.pool = here.asked == 1 ? pool : 0;
}

void recorder_graph(uint64_t graph, pool_id_t id) {
    here.graph = graph ? graph : here.graph;
    here.graph_pool = recorder_pool(id);
}

void recorder_capture(bool begins) {
    uint64_t graph = begins ? here.graph : 0;
    atomic_store(&self.captured_pool, graph && here.graph_pool ? here.graph_pool : graph);
    if (graph)
        recorder_note(NULL, VRAMGC_NOTE_KEEP, graph);
    here.graph = 0;
}
