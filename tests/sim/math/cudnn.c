/* Stand-in for cuDNN's graph interface, which PyTorch uses for convolutions and fused attention.
 * Descriptors keep what is set and give it back; an execution is one empty kernel in the handle's
 * stream. What matters here is the memory that a plan asks for: a plan's workspace is
 * SIMGPU_CONV_WS (default 1.0) times the bytes of the operation's tensors in memory, a model of the
 * layout changes that half-precision NCHW input costs. A second plan without workspace is offered,
 * as on a card, for callers that cannot get it. Fused attention needs none. Numbers are those of
 * the public cudnn_graph.h of cuDNN 9, which cuDNN 8's cudnn_backend.h shares. */
#include "work.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STATUS_SUCCESS = 0,
    STATUS_ALLOC_FAILED = 2,
    STATUS_BAD_PARAM = 3,
    STATUS_EXECUTION_FAILED = 8,
    STATUS_NOT_SUPPORTED = 9
};

#ifndef SIM_CUDNN_MAJOR
#define SIM_CUDNN_MAJOR 9
#define SIM_CUDNN_MINOR 26
#define SIM_CUDNN_PATCH 0
#endif
#ifndef SIM_CUDA_VERSION
#define SIM_CUDA_VERSION 13000
#endif

/* cudnnBackendAttributeName_t */
enum {
    ATTR_ENGINEHEUR_RESULTS = 202,
    ATTR_ENGINECFG_ENGINE = 300,
    ATTR_ENGINECFG_KNOB_CHOICES = 302,
    ATTR_ENGINECFG_WORKSPACE_SIZE = 303,
    ATTR_ENGINECFG_SHARED_MEMORY_USED = 304,
    ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402,
    ATTR_EXECUTION_PLAN_JSON_REPRESENTATION = 405,
    ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT = 802,
    ATTR_TENSOR_DATA_TYPE = 901,
    ATTR_TENSOR_DIMENSIONS = 902,
    ATTR_TENSOR_IS_VIRTUAL = 907,
    ATTR_ENGINE_KNOB_INFO = 1302,
    ATTR_ENGINE_NUMERICAL_NOTE = 1303,
    ATTR_ENGINE_BEHAVIOR_NOTE = 1305
};

/* cudnnBackendDescriptorType_t */
enum {
    DESCRIPTOR_TENSOR = 17,
    DESCRIPTOR_OPERATION_MATMUL = 19,
    DESCRIPTOR_OPERATION_SDPA_FWD = 41,
    DESCRIPTOR_OPERATION_SDPA_BWD = 43
};

/* cudnnBackendAttributeType_t */
enum {
    TYPE_HANDLE = 0,
    TYPE_BOOLEAN = 2,
    TYPE_INT64 = 3,
    TYPE_DOUBLE = 5,
    TYPE_VOID_PTR = 6,
    TYPE_BACKEND_DESCRIPTOR = 15,
    TYPE_CHAR = 24,
    TYPE_FRACTION = 26
};

struct attribute {
    int name;
    int type;
    int64_t count;
    unsigned char *values;
    /* Bytes of the tensors that the descriptors in it stand for, and whether one of them is part of
     * attention. */
    int64_t tensor_bytes;
    bool attention;
    struct attribute *next;
};

struct descriptor {
    int type;
    /* Bytes that this descriptor stands for itself: a tensor's, or those of the graph it was filled
     * from; 0 for an engine's choice that works without workspace. */
    int64_t own_bytes;
    bool own_attention;
    struct attribute *attributes;
};

struct cudnn_handle {
    void *stream;
};

int cudnnBackendCreateDescriptor(int type, struct descriptor **descriptor);
int cudnnBackendDestroyDescriptor(struct descriptor *descriptor);
int cudnnBackendInitialize(struct descriptor *descriptor);
int cudnnBackendFinalize(struct descriptor *descriptor);
int cudnnBackendSetAttribute(struct descriptor *descriptor, int name, int type, int64_t count,
                             const void *values);
int cudnnBackendGetAttribute(struct descriptor *descriptor, int name, int type, int64_t wanted,
                             int64_t *count, void *values);
int cudnnBackendExecute(struct cudnn_handle *handle, struct descriptor *plan,
                        struct descriptor *pack);
int cudnnCreate(struct cudnn_handle **handle);
int cudnnDestroy(struct cudnn_handle *handle);
int cudnnSetStream(struct cudnn_handle *handle, void *stream);
int cudnnGetStream(struct cudnn_handle *handle, void **stream);
size_t cudnnGetVersion(void);
size_t cudnnGetCudartVersion(void);
int cudnnGetProperty(int property, int *value);
const char *cudnnGetErrorString(int status);
void cudnnGetLastErrorString(char *message, size_t size);
int sim_cudnn_unsupported(const char *name);

/* --- attributes --- */

static size_t value_size(int type) {
    switch (type) {
    case TYPE_HANDLE:
    case TYPE_INT64:
    case TYPE_DOUBLE:
    case TYPE_VOID_PTR:
    case TYPE_BACKEND_DESCRIPTOR:
    case TYPE_FRACTION:
        return 8;
    case TYPE_BOOLEAN:
    case TYPE_CHAR:
        return 1;
    default:
        return 4;
    }
}

static struct attribute *find(const struct descriptor *descriptor, int name) {
    struct attribute *attribute = descriptor->attributes;
    while (attribute && attribute->name != name)
        attribute = attribute->next;
    return attribute;
}

static struct attribute *find_or_add(struct descriptor *descriptor, int name) {
    struct attribute *attribute = find(descriptor, name);
    if (attribute)
        return attribute;
    attribute = calloc(1, sizeof *attribute);
    if (!attribute)
        return NULL;
    attribute->name = name;
    attribute->next = descriptor->attributes;
    descriptor->attributes = attribute;
    return attribute;
}

static int64_t tensor_bytes(const struct descriptor *descriptor) {
    int64_t bytes = descriptor->own_bytes;
    for (const struct attribute *a = descriptor->attributes; a; a = a->next)
        bytes += a->tensor_bytes;
    return bytes;
}

static bool is_attention(const struct descriptor *descriptor) {
    if (descriptor->own_attention || descriptor->type == DESCRIPTOR_OPERATION_MATMUL ||
        descriptor->type == DESCRIPTOR_OPERATION_SDPA_FWD ||
        descriptor->type == DESCRIPTOR_OPERATION_SDPA_BWD)
        return true;
    for (const struct attribute *a = descriptor->attributes; a; a = a->next) {
        if (a->attention)
            return true;
    }
    return false;
}

/* What the descriptors mean is taken now: the caller may destroy them after finalizing the one they
 * were set in. */
static void sum_up(struct attribute *attribute) {
    attribute->tensor_bytes = 0;
    attribute->attention = false;
    if (attribute->type != TYPE_BACKEND_DESCRIPTOR)
        return;
    for (int64_t i = 0; i < attribute->count; i++) {
        struct descriptor *part = NULL;
        memcpy(&part, attribute->values + (size_t)i * sizeof part, sizeof part);
        if (!part)
            continue;
        attribute->tensor_bytes += tensor_bytes(part);
        attribute->attention |= is_attention(part);
    }
}

int cudnnBackendSetAttribute(struct descriptor *descriptor, int name, int type, int64_t count,
                             const void *values) {
    if (!descriptor || count < 0 || (count && !values))
        return STATUS_BAD_PARAM;
    struct attribute *attribute = find_or_add(descriptor, name);
    size_t size = (size_t)count * value_size(type);
    unsigned char *copy = malloc(size + 1);
    if (!attribute || !copy) {
        free(copy);
        return STATUS_ALLOC_FAILED;
    }
    if (size)
        memcpy(copy, values, size);
    free(attribute->values);
    attribute->values = copy;
    attribute->type = type;
    attribute->count = count;
    sum_up(attribute);
    return STATUS_SUCCESS;
}

/* --- descriptors --- */

int cudnnBackendCreateDescriptor(int type, struct descriptor **descriptor) {
    if (!descriptor)
        return STATUS_BAD_PARAM;
    *descriptor = calloc(1, sizeof **descriptor);
    if (!*descriptor)
        return STATUS_ALLOC_FAILED;
    (*descriptor)->type = type;
    return STATUS_SUCCESS;
}

int cudnnBackendDestroyDescriptor(struct descriptor *descriptor) {
    if (!descriptor)
        return STATUS_SUCCESS;
    struct attribute *attribute = descriptor->attributes;
    while (attribute) {
        struct attribute *next = attribute->next;
        free(attribute->values);
        free(attribute);
        attribute = next;
    }
    free(descriptor);
    return STATUS_SUCCESS;
}

int cudnnBackendInitialize(struct descriptor *descriptor) {
    return descriptor ? STATUS_SUCCESS : STATUS_BAD_PARAM;
}

/* cudnnDataType_t: bytes of one element; the four-bit types count as one. */
static int64_t element_bytes(int data_type) {
    static const signed char bytes[] = {4, 8, 2, 1, 4, 4, 1, 4, 32, 2, 8,
                                        1, 1, 1, 4, 1, 1, 1, 1, 4,  8, 16};
    if (data_type < 0 || (size_t)data_type >= sizeof bytes)
        return 4;
    return bytes[data_type];
}

static int64_t bytes_of_tensor(const struct descriptor *tensor) {
    const struct attribute *dimensions = find(tensor, ATTR_TENSOR_DIMENSIONS);
    const struct attribute *type = find(tensor, ATTR_TENSOR_DATA_TYPE);
    const struct attribute *is_virtual = find(tensor, ATTR_TENSOR_IS_VIRTUAL);
    int data_type = 0;
    if (!dimensions || (is_virtual && is_virtual->count && is_virtual->values[0]))
        return 0;
    if (type && type->count)
        memcpy(&data_type, type->values, sizeof data_type);
    int64_t bytes = element_bytes(data_type);
    for (int64_t i = 0; i < dimensions->count; i++) {
        int64_t dimension = 0;
        memcpy(&dimension, dimensions->values + (size_t)i * sizeof dimension, sizeof dimension);
        bytes *= dimension;
    }
    return bytes;
}

int cudnnBackendFinalize(struct descriptor *descriptor) {
    if (!descriptor)
        return STATUS_BAD_PARAM;
    if (descriptor->type == DESCRIPTOR_TENSOR)
        descriptor->own_bytes = bytes_of_tensor(descriptor);
    return STATUS_SUCCESS;
}

/* --- questions that the library answers itself --- */

static double workspace_factor(void) {
    const char *text = getenv("SIMGPU_CONV_WS");
    char *end = NULL;
    double factor = text && *text ? strtod(text, &end) : 1.0;
    if (end && (end == text || *end || factor < 0 || factor > 1000)) {
        fprintf(stderr,
                "simgpu: SIMGPU_CONV_WS=%s is not a factor from 0 to 1000; the default is used\n",
                text);
        factor = 1.0;
    }
    return factor;
}

static int64_t workspace_bytes(const struct descriptor *descriptor) {
    static double factor = -1;
    if (factor < 0)
        factor = workspace_factor();
    if (is_attention(descriptor))
        return 0;
    return (int64_t)((double)tensor_bytes(descriptor) * factor);
}

/* A descriptor that the caller made and we fill stands for the same tensors as the one that is
 * asked. */
static void fill_from(struct descriptor *filled, const struct descriptor *asked) {
    if (!filled)
        return;
    filled->own_bytes = tensor_bytes(asked);
    filled->own_attention = is_attention(asked);
}

/* Two choices: one with workspace, and one without for when memory is short. */
static int heuristic_results(const struct descriptor *heuristic, int64_t wanted, int64_t *count,
                             struct descriptor **results) {
    enum { CHOICES = 2 };
    int64_t given = results && wanted < CHOICES ? wanted : CHOICES;
    *count = given;
    for (int64_t i = 0; results && i < given; i++) {
        fill_from(results[i], heuristic);
        if (results[i] && i > 0)
            results[i]->own_bytes = 0;
    }
    return STATUS_SUCCESS;
}

static int answer_int64(int64_t value, int64_t *count, void *values) {
    *count = 1;
    if (values)
        memcpy(values, &value, sizeof value);
    return STATUS_SUCCESS;
}

/* Left unanswered, the graph front end assumes 2 GiB and refuses the plan; 48 KiB is what every
 * card allows. */
static int answer_shared_memory(int64_t *count, void *values) {
    static const int32_t bytes = 49152;
    *count = 1;
    if (values)
        memcpy(values, &bytes, sizeof bytes);
    return STATUS_SUCCESS;
}

static int answer_json(int64_t wanted, int64_t *count, char *values) {
    *count = 3;
    if (values && wanted >= 3)
        memcpy(values, "{}", 3);
    return STATUS_SUCCESS;
}

static int stored_attribute(const struct descriptor *descriptor, int name, int type, int64_t wanted,
                            int64_t *count, void *values) {
    const struct attribute *attribute = find(descriptor, name);
    if (!attribute)
        return STATUS_SUCCESS;
    *count = attribute->count;
    int64_t given = attribute->count < wanted ? attribute->count : wanted;
    if (values && given > 0 && attribute->type == type)
        memcpy(values, attribute->values, (size_t)given * value_size(type));
    return STATUS_SUCCESS;
}

int cudnnBackendGetAttribute(struct descriptor *descriptor, int name, int type, int64_t wanted,
                             int64_t *count, void *values) {
    int64_t ignored = 0;
    if (!descriptor)
        return STATUS_BAD_PARAM;
    if (!count)
        count = &ignored;
    *count = 0;
    switch (name) {
    case ATTR_ENGINEHEUR_RESULTS:
        return heuristic_results(descriptor, wanted, count, values);
    case ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
    case ATTR_ENGINECFG_WORKSPACE_SIZE:
        return answer_int64(workspace_bytes(descriptor), count, values);
    case ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
        return answer_int64(1, count, values);
    case ATTR_ENGINECFG_SHARED_MEMORY_USED:
        return answer_shared_memory(count, values);
    case ATTR_EXECUTION_PLAN_JSON_REPRESENTATION:
        return answer_json(wanted, count, values);
    case ATTR_ENGINECFG_ENGINE:
        *count = 1;
        if (values && wanted > 0)
            fill_from(*(struct descriptor **)values, descriptor);
        return STATUS_SUCCESS;
    case ATTR_ENGINE_NUMERICAL_NOTE:
    case ATTR_ENGINE_BEHAVIOR_NOTE:
    case ATTR_ENGINE_KNOB_INFO:
    case ATTR_ENGINECFG_KNOB_CHOICES:
        return STATUS_SUCCESS;
    default:
        return stored_attribute(descriptor, name, type, wanted, count, values);
    }
}

/* --- handles --- */

int cudnnBackendExecute(struct cudnn_handle *handle, struct descriptor *plan,
                        struct descriptor *pack) {
    if (!handle || !plan || !pack)
        return STATUS_BAD_PARAM;
    return work_launch(handle->stream, "cudnnBackendExecute") ? STATUS_SUCCESS
                                                              : STATUS_EXECUTION_FAILED;
}

int cudnnCreate(struct cudnn_handle **handle) {
    if (!handle)
        return STATUS_BAD_PARAM;
    *handle = calloc(1, sizeof **handle);
    return *handle ? STATUS_SUCCESS : STATUS_ALLOC_FAILED;
}

int cudnnDestroy(struct cudnn_handle *handle) {
    free(handle);
    return STATUS_SUCCESS;
}

int cudnnSetStream(struct cudnn_handle *handle, void *stream) {
    if (!handle)
        return STATUS_BAD_PARAM;
    handle->stream = stream;
    return STATUS_SUCCESS;
}

int cudnnGetStream(struct cudnn_handle *handle, void **stream) {
    if (!handle || !stream)
        return STATUS_BAD_PARAM;
    *stream = handle->stream;
    return STATUS_SUCCESS;
}

size_t cudnnGetVersion(void) {
    size_t per_major = SIM_CUDNN_MAJOR >= 9 ? 10000 : 1000;
    return SIM_CUDNN_MAJOR * per_major + SIM_CUDNN_MINOR * 100 + SIM_CUDNN_PATCH;
}

size_t cudnnGetCudartVersion(void) {
    return SIM_CUDA_VERSION;
}

/* libraryPropertyType: 0 major, 1 minor, 2 patch level. */
int cudnnGetProperty(int property, int *value) {
    static const int version[] = {SIM_CUDNN_MAJOR, SIM_CUDNN_MINOR, SIM_CUDNN_PATCH};
    if (!value || property < 0 || property > 2)
        return STATUS_BAD_PARAM;
    *value = version[property];
    return STATUS_SUCCESS;
}

const char *cudnnGetErrorString(int status) {
    return status == STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "an error of the simulated cuDNN";
}

void cudnnGetLastErrorString(char *message, size_t size) {
    if (message && size)
        *message = '\0';
}

int sim_cudnn_unsupported(const char *name) {
    work_unsupported(name);
    return STATUS_NOT_SUPPORTED;
}
