/* Stand-in for cuDNN's graph interface, which PyTorch uses for convolutions and fused attention.
 * Descriptors keep what is set and give it back; an execution is one empty kernel in the handle's
 * stream, which on the simulated driver also checks that its operands' pages are mapped then. What
 * matters here is the memory that a plan asks for: a plan's workspace is
 * SIMGPU_CONV_WS (default 1.0) times the bytes of the operation's tensors in memory, a model of the
 * layout changes that half-precision NCHW input costs. A second plan without workspace is offered,
 * as on a card, for callers that cannot get it. Fused attention needs none. Numbers are those of
 * the public cudnn_graph.h of cuDNN 9, which cuDNN 8's cudnn_backend.h shares. */
#include "cudnn.h"
#include "work.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    ATTR_TENSOR_STRIDES = 903,
    ATTR_TENSOR_UNIQUE_ID = 906,
    ATTR_TENSOR_IS_VIRTUAL = 907,
    ATTR_TENSOR_IS_BY_VALUE = 908,
    ATTR_VARIANT_PACK_UNIQUE_IDS = 1000,
    ATTR_VARIANT_PACK_DATA_POINTERS = 1001,
    ATTR_VARIANT_PACK_WORKSPACE = 1003,
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
    struct attribute *next;
};

/* A tensor in memory that an operation reads or writes. */
struct operand {
    int64_t id;
    int64_t bytes;        /* Its elements. */
    int64_t extent_bytes; /* From its first to its last element. */
};

/* What a descriptor stands for: a tensor for itself, all others for what was set in them. */
struct meaning {
    struct operand *operands;
    size_t count;
    bool attention;
    bool without_workspace; /* An engine's choice for callers that cannot get the workspace. */
};

struct descriptor {
    int type;
    struct meaning meaning;
    struct attribute *attributes;
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

/* --- what descriptors stand for --- */

static struct operand *find_operand(const struct meaning *meaning, int64_t id) {
    for (size_t i = 0; i < meaning->count; i++) {
        if (meaning->operands[i].id == id)
            return &meaning->operands[i];
    }
    return NULL;
}

/* A tensor that several operations share counts once. */
static bool add_operand(struct meaning *meaning, struct operand operand) {
    struct operand *known = find_operand(meaning, operand.id);
    if (known) {
        *known = operand;
        return true;
    }
    size_t size = (meaning->count + 1) * sizeof *meaning->operands;
    struct operand *grown = realloc(meaning->operands, size);
    if (!grown)
        return false;
    grown[meaning->count++] = operand;
    meaning->operands = grown;
    return true;
}

/* Taken when a descriptor is set in another: the caller may destroy it after finalizing that one.
 */
static bool add_meaning(struct meaning *meaning, const struct meaning *part) {
    meaning->attention |= part->attention;
    meaning->without_workspace |= part->without_workspace;
    for (size_t i = 0; i < part->count; i++) {
        if (!add_operand(meaning, part->operands[i]))
            return false;
    }
    return true;
}

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

static bool add_parts(struct descriptor *descriptor, const struct attribute *attribute) {
    for (int64_t i = 0; i < attribute->count; i++) {
        struct descriptor *part = NULL;
        memcpy(&part, attribute->values + (size_t)i * sizeof part, sizeof part);
        if (part && !add_meaning(&descriptor->meaning, &part->meaning))
            return false;
    }
    return true;
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
    if (type == TYPE_BACKEND_DESCRIPTOR && !add_parts(descriptor, attribute))
        return STATUS_ALLOC_FAILED;
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
    (*descriptor)->meaning.attention = type == DESCRIPTOR_OPERATION_MATMUL ||
                                       type == DESCRIPTOR_OPERATION_SDPA_FWD ||
                                       type == DESCRIPTOR_OPERATION_SDPA_BWD;
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
    free(descriptor->meaning.operands);
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

static int64_t int64_at(const struct attribute *attribute, int64_t i) {
    int64_t value = 0;
    if (attribute && i < attribute->count && attribute->type == TYPE_INT64)
        memcpy(&value, attribute->values + (size_t)i * sizeof value, sizeof value);
    return value;
}

static bool is_set(const struct descriptor *descriptor, int name) {
    const struct attribute *attribute = find(descriptor, name);
    return attribute && attribute->count && attribute->values[0];
}

static struct operand operand_of(const struct descriptor *tensor) {
    const struct attribute *dimensions = find(tensor, ATTR_TENSOR_DIMENSIONS);
    const struct attribute *strides = find(tensor, ATTR_TENSOR_STRIDES);
    const struct attribute *type = find(tensor, ATTR_TENSOR_DATA_TYPE);
    int data_type = 0;
    if (type && type->count)
        memcpy(&data_type, type->values, sizeof data_type);
    int64_t elements = 1;
    int64_t last = 0;
    for (int64_t i = 0; dimensions && i < dimensions->count; i++) {
        elements *= int64_at(dimensions, i);
        last += (int64_at(dimensions, i) - 1) * int64_at(strides, i);
    }
    int64_t element = element_bytes(data_type);
    return (struct operand){.id = int64_at(find(tensor, ATTR_TENSOR_UNIQUE_ID), 0),
                            .bytes = elements * element,
                            .extent_bytes = elements ? (last + 1) * element : 0};
}

/* Virtual tensors never reach memory, and values come with the call. */
int cudnnBackendFinalize(struct descriptor *descriptor) {
    if (!descriptor)
        return STATUS_BAD_PARAM;
    if (descriptor->type != DESCRIPTOR_TENSOR || is_set(descriptor, ATTR_TENSOR_IS_VIRTUAL) ||
        is_set(descriptor, ATTR_TENSOR_IS_BY_VALUE))
        return STATUS_SUCCESS;
    bool added = add_operand(&descriptor->meaning, operand_of(descriptor));
    return added ? STATUS_SUCCESS : STATUS_ALLOC_FAILED;
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
    const struct meaning *meaning = &descriptor->meaning;
    int64_t bytes = 0;
    if (meaning->without_workspace || meaning->attention)
        return 0;
    for (size_t i = 0; i < meaning->count; i++)
        bytes += meaning->operands[i].bytes;
    return (int64_t)((double)bytes * factor);
}

/* Two choices: one with workspace, and one without for when memory is short. */
static int heuristic_results(const struct descriptor *heuristic, int64_t wanted, int64_t *count,
                             struct descriptor **results) {
    enum { CHOICES = 2 };
    int64_t given = results && wanted < CHOICES ? wanted : CHOICES;
    *count = given;
    for (int64_t i = 0; results && i < given; i++) {
        if (!results[i])
            return STATUS_BAD_PARAM;
        if (!add_meaning(&results[i]->meaning, &heuristic->meaning))
            return STATUS_ALLOC_FAILED;
        results[i]->meaning.without_workspace = i > 0;
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

/* The caller's own engine descriptor is filled. */
static int answer_engine(const struct descriptor *config, int64_t wanted, int64_t *count,
                         struct descriptor **engine) {
    *count = 1;
    if (engine && wanted > 0 && *engine && !add_meaning(&(*engine)->meaning, &config->meaning))
        return STATUS_ALLOC_FAILED;
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
        return answer_engine(descriptor, wanted, count, values);
    case ATTR_ENGINE_NUMERICAL_NOTE:
    case ATTR_ENGINE_BEHAVIOR_NOTE:
    case ATTR_ENGINE_KNOB_INFO:
    case ATTR_ENGINECFG_KNOB_CHOICES:
        return STATUS_SUCCESS;
    default:
        return stored_attribute(descriptor, name, type, wanted, count, values);
    }
}

/* --- execution --- */

static void *pointer_at(const struct attribute *attribute, int64_t i) {
    void *pointer = NULL;
    if (attribute && i < attribute->count && attribute->type == TYPE_VOID_PTR)
        memcpy(&pointer, attribute->values + (size_t)i * sizeof pointer, sizeof pointer);
    return pointer;
}

/* The operands of a plan at the addresses that the variant pack gives them, and the workspace. */
static bool use_operands(void *stream, const struct descriptor *plan,
                         const struct descriptor *pack) {
    const struct attribute *ids = find(pack, ATTR_VARIANT_PACK_UNIQUE_IDS);
    const struct attribute *pointers = find(pack, ATTR_VARIANT_PACK_DATA_POINTERS);
    for (int64_t i = 0; ids && i < ids->count; i++) {
        const struct operand *operand = find_operand(&plan->meaning, int64_at(ids, i));
        void *pointer = pointer_at(pointers, i);
        if (operand && pointer && !work_use(stream, pointer, (size_t)operand->extent_bytes, false))
            return false;
    }
    void *workspace = pointer_at(find(pack, ATTR_VARIANT_PACK_WORKSPACE), 0);
    return !workspace || work_use(stream, workspace, (size_t)workspace_bytes(plan), true);
}

int cudnnBackendExecute(struct cudnn_handle *handle, struct descriptor *plan,
                        struct descriptor *pack) {
    if (!handle || !plan || !pack)
        return STATUS_BAD_PARAM;
    if (!use_operands(handle->stream, plan, pack) ||
        !work_launch(handle->stream, "cudnnBackendExecute"))
        return STATUS_EXECUTION_FAILED;
    return STATUS_SUCCESS;
}
