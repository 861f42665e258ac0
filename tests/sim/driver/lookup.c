/* Finding functions by name, and names of errors. Only public names are answered: the vendor's
 * undocumented export tables are refused. */
#include "driver.h"
#include "lookup.h"

#include <string.h>

static bool fits(const struct lookup_row *row, enum lookup_kind kind, int version) {
    return row->kind == kind && row->since <= version;
}

/* The newest form of a function that a program built for this version can call. */
static const struct lookup_row *newest(const char *base, enum lookup_kind kind, int version) {
    const struct lookup_row *best = NULL;
    for (unsigned i = 0; i < lookup_rows; i++) {
        const struct lookup_row *row = &lookup_table[i];
        if (strcmp(row->base, base) == 0 && fits(row, kind, version) &&
            (best == NULL || row->since >= best->since))
            best = row;
    }
    return best;
}

static const struct lookup_row *find(const char *base, int version, cuuint64_t flags) {
    const struct lookup_row *row = NULL;
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        row = newest(base, LOOKUP_PER_THREAD, version);
    return row != NULL ? row : newest(base, LOOKUP_LEGACY, version);
}

/* As if the driver were newer than whoever asks: a form that only its look-ups know. */
static CUresult new_form_of_map(CUdeviceptr base, size_t bytes, size_t offset,
                                CUmemGenericAllocationHandle handle, unsigned long long flags) {
    return cuMemMap(base, bytes, offset, handle, flags);
}

static void *function_of(const struct lookup_row *row) {
    if (row == NULL)
        return NULL;
    bool new_form = sim.config.new_forms && strcmp(row->base, "cuMemMap") == 0;
    return new_form ? (void *)new_form_of_map : (void *)row->function;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
    const cuuint64_t known =
        CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if (symbol == NULL || function == NULL || (flags & ~known) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_NOTHING);
    if (version > sim.config.driver_version)
        END(CUDA_ERROR_INVALID_VALUE);
    const struct lookup_row *row = find(symbol, version, flags);
    const struct lookup_row *any = find(symbol, sim.config.driver_version, flags);
    CUdriverProcAddressQueryResult found = row != NULL ? CU_GET_PROC_ADDRESS_SUCCESS
                                           : any != NULL
                                               ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                               : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    *function = function_of(row);
    if (status != NULL)
        *status = found;
    sim_log(row != NULL ? 2 : 1, "look-up of \"%s\" at %d, flags %llu -> %s", symbol, version,
            (unsigned long long)flags, row != NULL ? row->symbol : "none");
    END(CUDA_SUCCESS);
}

/* The form of CUDA 11: a name that is not there is an error, not only a null pointer. */
CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags) {
    CUresult result = cuGetProcAddress_v2(symbol, function, version, flags, NULL);
    if (result == CUDA_SUCCESS && *function == NULL)
        return CUDA_ERROR_NOT_FOUND;
    return result;
}

CUresult cuGetExportTable(const void **table, const CUuuid *id) {
    if (table == NULL || id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
#define ERROR(code, text)                                                                          \
    { code, #code, text }
    ERROR(CUDA_SUCCESS, "no error"),
    ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    ERROR(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture"),
    ERROR(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    ERROR(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    ERROR(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    ERROR(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "cannot set while device is active in this process"),
    ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
          "part or all of the requested memory range is already mapped"),
    ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
          "pointer does not correspond to a registered memory region"),
    ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          "operation not permitted when stream is capturing"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
          "operation failed due to a previous error during capture"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE,
          "operation would result in a merge of separate capture sequences"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
          "capture was not ended in the same stream as it began"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
          "dependency created on uncaptured work in another stream"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
          "operation would make the legacy stream depend on a capturing blocking stream"),
    ERROR(CUDA_ERROR_CAPTURED_EVENT,
          "operation not permitted on an event last recorded in a capturing stream"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
          "attempt to terminate a thread-local capture sequence from another thread"),
    ERROR(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
          "the graph update was not performed because it included changes which violated "
          "constraints specific to instantiated graph update"),
    ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
#undef ERROR
};

enum { ERROR_COUNT = sizeof errors / sizeof *errors };

static int error_index(CUresult error) {
    for (int i = 0; i < ERROR_COUNT; i++)
        if (errors[i].code == error)
            return i;
    return -1;
}

const char *sim_error_name(CUresult error) {
    int index = error_index(error);
    return index < 0 ? "an error" : errors[index].name;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
    if (text == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    int index = error_index(error);
    *text = index < 0 ? NULL : errors[index].text;
    return index < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
    if (name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    int index = error_index(error);
    *name = index < 0 ? NULL : errors[index].name;
    return index < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
