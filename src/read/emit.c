/* emit.c: see emit.h. */
#include "read/emit.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static struct emit_level *level(struct emit *emit) {
    return &emit->levels[emit->depth];
}

static void quote(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        if ((unsigned char)*text < 0x20)
            fprintf(out, "\\u%04x", (unsigned)(unsigned char)*text);
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

/* ---- a pickle ---- */

enum {
    OP_PROTO = 0x80,
    OP_LONG1 = 0x8a,
    OP_MARK = '(',
    OP_DICT = '}',
    OP_LIST = ']',
    OP_SETITEMS = 'u',
    OP_APPENDS = 'e',
    OP_TEXT = 'X',
    OP_STOP = '.',
    BATCH = 1000 /* readers take only so many items of a list at once */
};

static void pickle_open(FILE *out, int of) {
    fputc(of, out);
    fputc(OP_MARK, out);
}

static void pickle_little(FILE *out, uint64_t number, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        fputc((int)(number >> 8 * i & 0xff), out);
}

static void pickle_text(FILE *out, const char *text) {
    size_t length = strlen(text);
    fputc(OP_TEXT, out);
    pickle_little(out, length, 4);
    fwrite(text, 1, length, out);
}

/* Two's complement of as few bytes as there must be. */
static void pickle_number(FILE *out, uint64_t number) {
    size_t bytes = 1;
    while (bytes < 9 && number >> (8 * bytes - 1))
        bytes++;
    fputc(OP_LONG1, out);
    fputc((int)bytes, out);
    pickle_little(out, number, bytes < 8 ? bytes : 8);
    if (bytes == 9)
        fputc(0, out);
}

/* ---- objects, lists and their members ---- */

static void new_line(const struct emit *emit, size_t depth) {
    fprintf(emit->out, "\n%*s", (int)(2 * depth), "");
}

/* Inside a schema two levels of braces belong to one level of the report. */
static size_t schema_depth(const struct emit *emit) {
    return 2 * emit->depth;
}

static void separate(struct emit *emit) {
    struct emit_level *here = level(emit);
    if (here->count > 0)
        fputs(here->inline_items ? ", " : ",", emit->out);
    if (!here->inline_items)
        new_line(emit, emit->depth);
}

static bool is_member_wanted(const struct emit *emit, const char *name) {
    if (!emit->only)
        return true;
    size_t length = strcspn(emit->only, ",");
    return strncmp(emit->only, name, length) == 0 && !name[length];
}

static void schema_described(struct emit *emit, const char *before, const char *help,
                             const char *behind) {
    fputs(before, emit->out);
    quote(emit->out, help);
    fputs(behind, emit->out);
}

/* type is NULL for objects and arrays, which follow with their own. */
static void schema_member(struct emit *emit, const char *name, const char *help, const char *type,
                          bool nullable) {
    if (name) {
        fputs(level(emit)->count > 0 ? "," : "", emit->out);
        new_line(emit, schema_depth(emit));
        quote(emit->out, name);
        fputs(": ", emit->out);
    }
    if (!type)
        return;
    fprintf(emit->out, nullable ? "{\"type\": [\"%s\", \"null\"]" : "{\"type\": \"%s\"", type);
    if (*help)
        schema_described(emit, ", \"description\": ", help, "}");
    else
        fputc('}', emit->out);
}

/* Starts a member: separator, name, colon; for the schema also type and description. False: it is
 * not wanted. */
static bool member(struct emit *emit, const char *name, const char *help, const char *type,
                   bool nullable) {
    struct emit_level *here = level(emit);
    if (!is_member_wanted(emit, name))
        return false;
    if (emit->format == EMIT_JSON) {
        separate(emit);
        if (name) {
            quote(emit->out, name);
            fputs(": ", emit->out);
        }
    } else if (emit->format == EMIT_SCHEMA) {
        schema_member(emit, name, help, type, nullable);
    } else if (emit->format == EMIT_PICKLE) {
        if (name)
            pickle_text(emit->out, name);
        else if (here->count > 0 && here->count % BATCH == 0)
            pickle_open(emit->out, OP_APPENDS);
    }
    assert(!name || here->count < EMIT_NAMES);
    if (name && here->count < EMIT_NAMES)
        here->names[here->count] = name;
    here->count++;
    return true;
}

static void text_line(struct emit *emit, const char *name, const char *value) {
    fprintf(emit->out, "%*s%-*s  %s\n", (int)(2 * emit->depth - 2), "", (int)(40 - 2 * emit->depth),
            name ? name : "-", value);
}

static void deeper(struct emit *emit, bool is_array, bool inline_items) {
    emit->depth++;
    level(emit)->is_array = is_array;
    level(emit)->inline_items = inline_items;
    level(emit)->count = 0;
}

static void open_object(struct emit *emit, const char *name, const char *help, bool inline_items) {
    inline_items = inline_items || level(emit)->inline_items;
    member(emit, name, help, NULL, false);
    if (emit->format == EMIT_JSON)
        fputc('{', emit->out);
    else if (emit->format == EMIT_SCHEMA)
        schema_described(emit, "{\"type\": \"object\", \"description\": ", help,
                         ", \"properties\": {");
    else if (emit->format == EMIT_PICKLE)
        pickle_open(emit->out, OP_DICT);
    else if (emit->format == EMIT_TEXT && name)
        fprintf(emit->out, "%*s%s\n", (int)(2 * emit->depth - 2), "", name);
    else if (emit->format == EMIT_TEXT)
        fprintf(emit->out, "%*s[%zu]\n", (int)(2 * emit->depth - 2), "", level(emit)->count - 1);
    deeper(emit, false, inline_items);
}

void emit_open(struct emit *emit, const char *name, const char *help) {
    open_object(emit, name, help, false);
}

void emit_open_line(struct emit *emit, const char *name, const char *help) {
    open_object(emit, name, help, true);
}

static void close_schema(struct emit *emit) {
    const struct emit_level *here = level(emit);
    if (here->is_array) {
        fputc('}', emit->out);
        return;
    }
    new_line(emit, schema_depth(emit) - 1);
    fputs("}, \"required\": [", emit->out);
    for (size_t i = 0; i < here->count && i < EMIT_NAMES; i++) {
        fputs(i > 0 ? ", " : "", emit->out);
        quote(emit->out, here->names[i]);
    }
    fputs("]}", emit->out);
}

void emit_close(struct emit *emit) {
    const struct emit_level *here = level(emit);
    if (emit->format == EMIT_SCHEMA) {
        close_schema(emit);
    } else if (emit->format == EMIT_JSON) {
        if (here->count > 0 && !here->inline_items)
            new_line(emit, emit->depth - 1);
        fputc(here->is_array ? ']' : '}', emit->out);
    } else if (emit->format == EMIT_PICKLE) {
        fputc(here->is_array ? OP_APPENDS : OP_SETITEMS, emit->out);
    }
    emit->depth--;
}

size_t emit_list(struct emit *emit, const char *name, const char *help, size_t count) {
    member(emit, name, help, NULL, false);
    if (emit->format == EMIT_JSON) {
        fputc('[', emit->out);
    } else if (emit->format == EMIT_SCHEMA) {
        schema_described(emit, "{\"type\": \"array\", \"description\": ", help, ", \"items\": ");
    } else if (emit->format == EMIT_PICKLE) {
        pickle_open(emit->out, OP_LIST);
    } else if (count > 0) {
        fprintf(emit->out, "%*s%s\n", (int)(2 * emit->depth - 2), "", name);
    }
    deeper(emit, true, false);
    return emit->format == EMIT_SCHEMA ? 1 : count;
}

void emit_begin(struct emit *emit, FILE *out, enum emit_format format, const char *help) {
    *emit = (struct emit){.out = out, .format = format};
    if (format == EMIT_JSON) {
        fputc('{', out);
    } else if (format == EMIT_SCHEMA) {
        fputs("{\"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n", out);
        schema_described(
            emit, "\"title\": \"vramgc report\", \"type\": \"object\", \"description\": ", help,
            ", \"properties\": {");
    } else if (format == EMIT_PICKLE) {
        fputc(OP_PROTO, out);
        fputc(2, out);
        pickle_open(out, OP_DICT);
    }
    deeper(emit, false, false);
}

void emit_end(struct emit *emit) {
    emit_close(emit);
    if (emit->format != EMIT_TEXT)
        fputc(emit->format == EMIT_PICKLE ? OP_STOP : '\n', emit->out);
}

/* plain: as programs read it; shown: as people do. Both are NULL where it is not known. */
static void write_member(struct emit *emit, const char *name, const char *plain,
                         const char *shown) {
    assert(emit->format != EMIT_PICKLE);
    if (emit->format == EMIT_TEXT)
        text_line(emit, name, shown ? shown : "-");
    else if (emit->format != EMIT_SCHEMA)
        fputs(plain ? plain : "null", emit->out);
}

static void write_any_number(struct emit *emit, const char *name, enum unit unit, bool known,
                             uint64_t value) {
    char plain[32], shown[80];
    if (emit->format == EMIT_PICKLE) {
        pickle_number(emit->out, value);
        return;
    }
    snprintf(plain, sizeof plain, "%lu", value);
    bool counts = unit == UNIT_COUNT || unit == UNIT_ID;
    snprintf(shown, sizeof shown, counts ? "%s" : "%s (%s)", show_unit(unit, value).text, plain);
    write_member(emit, name, known ? plain : NULL, known ? shown : NULL);
}

void emit_number(struct emit *emit, const char *name, enum unit unit, const char *help,
                 uint64_t value) {
    if (member(emit, name, help, "integer", false))
        write_any_number(emit, name, unit, true, value);
}

void emit_number_if(struct emit *emit, const char *name, enum unit unit, const char *help,
                    bool known, uint64_t value) {
    if (member(emit, name, help, "integer", true))
        write_any_number(emit, name, unit, known || emit->only, value);
}

void emit_real_if(struct emit *emit, const char *name, const char *help, bool known, double value) {
    char plain[40];
    known = known && isfinite(value);
    snprintf(plain, sizeof plain, "%.10g", value);
    if (member(emit, name, help, "number", true))
        write_member(emit, name, known ? plain : NULL, show_real(known, value, 3).text);
}

void emit_bool(struct emit *emit, const char *name, const char *help, bool value) {
    if (member(emit, name, help, "boolean", false))
        write_member(emit, name, value ? "true" : "false", value ? "yes" : "no");
}

void emit_label(struct emit *emit, const char *name, const char *help, const char *text) {
    if (!member(emit, name, help, "string", true))
        return;
    if (text && emit->format == EMIT_PICKLE)
        pickle_text(emit->out, text);
    else if (text && emit->format == EMIT_JSON)
        quote(emit->out, text);
    else
        write_member(emit, name, NULL, text);
}

void emit_text(struct emit *emit, const char *name, const char *help, const char *text) {
    const char *unknown = emit->only ? "unknown" : NULL;
    bool known = text && (*text || emit->only);
    emit_label(emit, name, help, known ? text : unknown);
}

void emit_numbers(struct emit *emit, const char *name, const char *help, const void *first,
                  size_t stride, size_t count) {
    member(emit, name, help, NULL, false);
    if (emit->format == EMIT_SCHEMA) {
        schema_described(
            emit,
            "{\"type\": \"array\", \"items\": {\"type\": \"integer\"}, \"description\": ", help,
            "}");
        return;
    }
    if (emit->format == EMIT_TEXT) {
        text_line(emit, name, count > 0 ? "(in the JSON report)" : "-");
        return;
    }
    fputc('[', emit->out);
    for (size_t i = 0; i < count; i++) {
        uint64_t value;
        memcpy(&value, (const char *)first + i * stride, sizeof value);
        fprintf(emit->out, i > 0 ? ", %lu" : "%lu", value);
    }
    fputc(']', emit->out);
}
