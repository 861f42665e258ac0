/* test_secrets.c: what is kept of a command line. */
#include "unit.h"

#include "base/clean_text.h"

#include <string.h>

/* Arguments are separated by |. */
static const char *shown(const char *arguments) {
    static char data[512];
    char bytes[512];
    struct text text = TEXT_IN(data);
    size_t length = strlen(arguments);
    memcpy(bytes, arguments, length + 1);
    for (size_t i = 0; i < length; i++)
        bytes[i] = bytes[i] == '|' ? 0 : bytes[i];
    secrets_add_all(&text, bytes, length);
    return data;
}

static void options(void **state) {
    (void)state;
    assert_string_equal(shown("run.py|--gradio-auth|me:geheim|--xformers"),
                        "run.py --gradio-auth *** --xformers");
    assert_string_equal(shown("run.py|--gradio-auth=me:geheim|-x"), "run.py --gradio-auth=*** -x");
    assert_string_equal(shown("--token|geheim"), "--token ***");
    assert_string_equal(shown("--hf_token=geheim"), "--hf_token=***");
    assert_string_equal(shown("--api-key|geheim|--api_key=geheim|--apikey|geheim"),
                        "--api-key *** --api_key=*** --apikey ***");
    assert_string_equal(shown("--my-Passwords-x|geheim me|b"), "--my-Passwords-x *** b");
    assert_string_equal(shown("--PASSWORD=geheim me|b"), "--PASSWORD=*** b");
    assert_string_equal(shown("--api-auth|geheim|--ngrok|geheim"), "--api-auth *** --ngrok ***");
    assert_string_equal(shown("env|HF_TOKEN=geheim|python"), "env HF_TOKEN=*** python");
    assert_string_equal(shown("--token|-geheim"), "--token ***");
    assert_string_equal(shown("--token"), "--token");
}

static void no_secrets(void **state) {
    static const char *const kept[] = {"run.py --max-tokens 75",
                                       "--tokenizer=clip --x",
                                       "--token --x",
                                       "auth.py token secret",
                                       "--authors Me",
                                       "--keyfile x",
                                       ""};
    (void)state;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        char arguments[128];
        strcpy(arguments, kept[i]);
        for (char *c = arguments; *c; c++)
            *c = *c == ' ' ? '|' : *c;
        assert_string_equal(shown(arguments), kept[i]);
    }
    assert_string_equal(shown("a||b|"), "a  b");
}

static void urls(void **state) {
    (void)state;
    assert_string_equal(shown("--proxy=http://me:geheim@host:1/a@b"),
                        "--proxy=http://***@host:1/a@b");
    assert_string_equal(shown("https://geheim@host|x"), "https://***@host x");
    assert_string_equal(shown("https://host/a?b=1&token=geheim&c=2#d"),
                        "https://host/a?b=1&token=***&c=2#d");
    assert_string_equal(shown("https://host/@a"), "https://host/@a");
}

static void commands(void **state) {
    (void)state;
    assert_string_equal(shown("sh|-c|a --token geheim; b --password='geheim ge' c"),
                        "sh -c a --token *** b --password=*** c");
    assert_string_equal(shown("sh|-c|curl ftp://me:geheim@host  x"),
                        "sh -c curl ftp://***@host  x");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(options), cmocka_unit_test(no_secrets),
                                       cmocka_unit_test(urls), cmocka_unit_test(commands)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
