/* errors.c: see errors.h. PyTorch's OutOfMemoryError is its c10::Error under another type: nothing
 * is added to it (c10/util/Exception.h). So one is made by the exported constructor of either; in
 * the second case it gets the other type's table of virtual functions, as the C++ ABI for Itanium
 * lays it out. Nothing else may be assumed of what is inside. */
#include "cuda/errors.h"

#include "base/text.h"
#include "cuda/objects.h"
#include "cuda/real.h"

/* More than any release's c10::Error takes (200 bytes in 2.15), and than any std::string. */
enum { ERROR_BYTES = 1024, STRING_BYTES = 64 };

/* As in c10/util/Exception.h. */
struct source_location {
    const char *function, *file;
    uint32_t line;
};

/* A class with virtual functions as every object of it points to: past the two words on itself
 * (offset, type), its first function is the destructor. */
enum { TABLE_START = 2, TABLE_DESTRUCTOR = 2 };

/* std::string exists twice, before and since C++11; a release of PyTorch uses one of them. */
struct names {
    const char *out_of_memory, *error; /* constructors, from a place and a std::string */
    const char *string, *string_ends;
};

static const struct names abis[] = {
    {"_ZN3c1016OutOfMemoryErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcE"
     "SaIcEEE",
     "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
     "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEC1EPKcRKS3_",
     "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEED1Ev"},
    {"_ZN3c1016OutOfMemoryErrorC1ENS_14SourceLocationESs", "_ZN3c105ErrorC1ENS_14SourceLocationESs",
     "_ZNSsC1EPKcRKSaIcE", "_ZNSsD1Ev"},
};

static struct {
    atomic_bool complete;
    _Atomic unsigned long long looked; /* objects_changes() when it was looked for in vain */
    void (*construct)(void *error, struct source_location where, void *message);
    void (*string)(void *string, const char *text, const void *allocator);
    void (*string_ends)(void *string);
    void *(*allocate)(size_t bytes);
    void (*raise)(void *error, void *type, void (*destructor)(void *error));
    void *type;
    void **table;
    void (*check)(int code, const char *file, const char *function, int line, bool assertions,
                  void *log);
} self;

/* From one of PyTorch's two libraries, or what it was linked with. */
static void *find_symbol(const char *symbol) {
    static const char *const stems[] = {"libc10.so", "libc10_cuda.so"};
    char path[512];
    void *p = NULL;
    for (size_t i = 0; !p && i < ARRAY_LENGTH(stems); i++)
        if (objects_path(stems[i], 0, path, sizeof path))
            p = real_in_object(path, symbol);
    return p;
}

static bool find_constructor(void) {
    for (size_t i = 0; i < ARRAY_LENGTH(abis); i++) {
        void *constructor = find_symbol(abis[i].out_of_memory);
        *(void **)&self.construct = constructor ? constructor : find_symbol(abis[i].error);
        *(void **)&self.string = find_symbol(abis[i].string);
        *(void **)&self.string_ends = find_symbol(abis[i].string_ends);
        if (self.construct && self.string && self.string_ends)
            return true;
    }
    return false;
}

static bool find_type(void) {
    *(void **)&self.allocate = find_symbol("__cxa_allocate_exception");
    *(void **)&self.raise = find_symbol("__cxa_throw");
    self.type = find_symbol("_ZTIN3c1016OutOfMemoryErrorE");
    self.table = find_symbol("_ZTVN3c1016OutOfMemoryErrorE");
    return self.allocate && self.raise && self.type && self.table;
}

/* PyTorch passes the results of its own calls to this. Later releases have one argument more, which
 * may be NULL; the others do not look at it. */
static void find_check(void) {
    static const char *const names[] = {
        "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jbPNS0_19CUDAErrorLogCaptureE",
        "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb",
        "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib",
    };
    for (size_t i = 0; !self.check && i < ARRAY_LENGTH(names); i++)
        *(void **)&self.check = find_symbol(names[i]);
    if (self.check)
        objects_pin(*(void **)&self.check);
}

/* Two threads that look at once find the same. */
bool errors_find(void) {
    unsigned long long changes = objects_changes();
    if (!atomic_load_explicit(&self.complete, memory_order_acquire) &&
        atomic_load(&self.looked) != changes) {
        find_check();
        if (find_constructor() && find_type()) {
            objects_pin(*(void **)&self.construct);
            atomic_store_explicit(&self.complete, true, memory_order_release);
        }
        atomic_store(&self.looked, changes);
    }
    return atomic_load_explicit(&self.complete, memory_order_acquire);
}

void errors_throw_out_of_memory(const char *message) {
    if (!atomic_load_explicit(&self.complete, memory_order_acquire))
        return;
    struct source_location where = {"allocate", "vramgc", 0};
    _Alignas(16) char string[STRING_BYTES], allocator[1];
    void *error = self.allocate(ERROR_BYTES);
    self.string(string, message, allocator);
    self.construct(error, where, string);
    self.string_ends(string);
    *(void ***)error = self.table + TABLE_START;
    void (*destructor)(void *);
    *(void **)&destructor = self.table[TABLE_DESTRUCTOR];
    self.raise(error, self.type, destructor);
}

/* As out of memory, after which programs go on, only where nothing else can be raised: a block
 * without pages must never be handed out. */
void errors_throw_cuda(int code) {
    TEXT_OVER(text, message, 80);
    if (self.check)
        self.check(code, "vramgc", "allocate", 0, false, NULL);
    text_add(&text, "CUDA error: ");
    text_add_decimal(&text, code, 0);
    errors_throw_out_of_memory(message);
}
