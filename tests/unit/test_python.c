/* test_python.c: when Python is looked for, and when it is found. The loader is the test's: which
 * names it knows, and how many objects were ever loaded. No function of this Python is called but
 * Py_IsInitialized. */
#include "unit.h"

#include "cuda/objects.h"
#include "cuda/real.h"
#include "govern/python.h"
#include "python/frames.h"
#include "python/names.h"
#include "python/phases.h"
#include "store/store.h"
#include "track/device.h"
#include "track/process_state.h"
#include "track/recorder.h"

#include <string.h>

/* Nothing is recorded. */
bool recorder_has_blocks(unsigned device) {
    (void)device;
    return false;
}

void recorder_fraction(double fraction) {
    (void)fraction;
}

static struct {
    unsigned long long changes;
    bool loaded; /* libpython is */
    const char *missing;
    int initialised;
    unsigned questions;
} self;

static int is_initialised(void) {
    return self.initialised;
}

unsigned long long objects_changes(void) {
    return self.changes;
}

/* The store, the recording and names are not part of this test. */
atomic_int recording_state;

const struct options *settings_options(void) {
    return NULL;
}

bool frames_learn(void) {
    return false;
}

void names_begin(void) {}
void names_end(void) {}

void phases_read_file(const char *path) {
    (void)path;
}

void store_python_ends(void) {}

void *real_dlsym(void *handle, const char *name) {
    (void)handle;
    self.questions++;
    if (!self.loaded || (self.missing && strcmp(name, self.missing) == 0))
        return NULL;
    return (void *)(uintptr_t)is_initialised;
}

static void is_looked_for_again_when_something_was_loaded(void **state) {
    (void)state;
    self.changes = 10;
    assert_false(python_is_there());
    unsigned questions = self.questions;
    assert_true(questions > 0);
    assert_false(python_is_there());
    assert_int_equal(self.questions, questions); /* nothing was loaded since */

    self.loaded = true;
    self.changes++;
    self.missing = "PyGILState_Check"; /* no Python that can be used */
    assert_false(python_is_there());

    self.missing = NULL;
    self.changes++;
    assert_false(python_is_there()); /* it does not run yet */
    self.initialised = 1;
    assert_true(python_is_there());

    questions = self.questions;
    self.changes++;
    assert_true(python_is_there());
    assert_int_equal(self.questions, questions); /* what is found is found */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_looked_for_again_when_something_was_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
