/* options.h: the settings of options.def as a struct, read from the environment. Pure but for
 * reading `environ`. A bad value or an unknown name is told through `complain` and changes nothing:
 * the standard value stays. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OPTION_TEXT_BYTES = 1024 };

enum option_type { BOOL, PERCENT, SIZE, AMOUNT, DURATION, COUNT, CHOICE, TEXT };

/* The words of the CHOICE settings, in the order of options.def. */
enum option_mode { MODE_OFF, MODE_OBSERVE, MODE_FLUSH, MODE_COMPACT, MODE_AUTO };

/* "off", ... */
const char *mode_name(enum option_mode mode);
enum option_async { ASYNC_AUTO, ASYNC_DRIVER, ASYNC_PAGES };
enum option_host { HOST_OFF, HOST_OBSERVE, HOST_AUTO };
enum option_prove { PROVE_OFF, PROVE_AUTO };
enum option_peers { PEERS_OFF, PEERS_AUTO };
enum option_log { LOG_OFF, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

typedef bool option_bool_t;
typedef double option_percent_t;
typedef uint64_t option_number_t;
typedef int option_choice_t;
typedef char option_text_t[OPTION_TEXT_BYTES];

struct options {
#define OPTION_FIELD_BOOL                                              option_bool_t
#define OPTION_FIELD_PERCENT                                           option_percent_t
#define OPTION_FIELD_SIZE                                              option_number_t
#define OPTION_FIELD_AMOUNT                                            option_number_t
#define OPTION_FIELD_DURATION                                          option_number_t
#define OPTION_FIELD_COUNT                                             option_number_t
#define OPTION_FIELD_CHOICE                                            option_choice_t
#define OPTION_FIELD_TEXT                                              option_text_t
#define OPTION(type, name, variable, standard, low, high, words, help) OPTION_FIELD_##type name;
#include "options.def"
#undef OPTION
};

/* One row of options.def, for help, manual, launcher and echo. */
struct option_info {
    enum option_type type;
    const char *name;     /* "log_file" */
    const char *variable; /* "VRAMGC_LOG_FILE" */
    const char *standard; /* the default, as it would be typed */
    double low, high;
    const char *words;
    const char *help;
    size_t offset; /* of the field in struct options */
};

extern const struct option_info option_table[];
extern const size_t option_count;

enum option_origin { ORIGIN_DEFAULT, ORIGIN_ENVIRONMENT, ORIGIN_INVALID };

/* Called with one complete sentence, without prefix and line end. */
typedef void option_complain(const char *sentence, void *context);

/* Sets every field to its standard value. */
void options_defaults(struct options *options);

/* Parses one value into the field of *options that info describes. False: not accepted, nothing
 * changed. */
bool option_set(const struct option_info *info, const char *value, struct options *options);

/* The sentence about a refused value: setting and value as they were typed, what is accepted. */
void option_refusal(const struct option_info *info, const char *typed, const char *value, char *out,
                    size_t capacity);

/* Reads all settings from the environment. origins may be NULL, else it has option_count entries;
 * complain may be NULL. Returns how many complaints there were. */
size_t options_read(struct options *options, enum option_origin *origins, option_complain *complain,
                    void *context);

/* True: an entry of the environment, NAME=VALUE, has a name in VRAMGC_ that is no setting, nor
 * one that vramgc sets for itself. */
bool option_is_unknown(const char *entry);

/* The value of a field as it would be typed. */
void option_show(const struct option_info *info, const struct options *options, char *out,
                 size_t capacity);
