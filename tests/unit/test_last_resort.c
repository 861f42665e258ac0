/* test_last_resort.c: which rungs are climbed for which request, in what order, each once. The
 * rungs' own work is not part of this: each writes its letter. */
#include "unit.h"

#include "govern/decay_thread.h"
#include "govern/last_resort.h"
#include "govern/peer_programs.h"
#include "govern/python.h"
#include "govern/reclaim.h"
#include "govern/torch.h"
#include "govern/trim.h"
#include "govern/own_thread.h"
#include "track/stream.h"
#include "track/callers.h"
#include "track/process_state.h"
#include "track/device.h"
#include "track/thread.h"

#include <string.h>

enum { WANTED = 100 };

static struct {
    struct device device, other;
    struct vramgc_device out;
    struct reclaim reclaim;
    char climbed[16];
    char gives; /* the letter of the rung that does */
    uint64_t own_bytes, releasable_bytes;
    bool capturing, aimdo;
} test;

static bool climb(char rung) {
    size_t length = strlen(test.climbed);
    assert_true(length + 1 < sizeof test.climbed);
    test.climbed[length] = rung;
    return test.gives == rung;
}

/* --- the rungs --- */

static char steps_of_device, steps_of_other; /* never looked into */

uint64_t vm_reclaim(struct vm *vm, uint64_t bytes, enum vm_ask ask) {
    assert_int_equal(bytes, WANTED);
    assert_int_equal(ask, VM_ASK_NOT);
    if (vm == (struct vm *)&steps_of_other)
        return climb('O') ? test.own_bytes : 0;
    assert_ptr_equal(vm, &steps_of_device);
    return climb('o') ? test.own_bytes : 0;
}

void device_account_pages(struct device *device) {
    (void)device;
}

uint64_t decay_after_oom(struct device *device, struct vm *vm, uint64_t bytes) {
    (void)device, (void)vm, (void)bytes;
    return climb('o') ? test.own_bytes : 0;
}

bool trim_after_oom(struct device *device, uint64_t bytes) {
    (void)device, (void)bytes;
    return climb('t');
}

/* Our own thread has PyTorch empty its cache. */
void wakeup(enum wakeup who) {
    (void)who;
    if (climb('f'))
        figure_add(&test.out.stats.reclaimed_bytes, 1);
}

bool peers_after_oom(struct device *device, uint64_t bytes) {
    (void)device, (void)bytes;
    return climb('p');
}

static bool give_weights(uint64_t bytes) {
    assert_int_equal(bytes, WANTED);
    return climb('a');
}

/* --- what they are asked about --- */

atomic_int recording_state;
THREAD_LOCAL struct thread_state thread_state;

/* Two, of which the second is another GPU. */
struct device *device_next(const struct device *before) {
    return !before ? &test.device : before == &test.device ? &test.other : NULL;
}

struct device *device_current(void) {
    return &test.device;
}

uint64_t device_releasable_bytes(const struct device *device) {
    (void)device;
    return test.releasable_bytes;
}

bool capture_active(void) {
    return test.capturing;
}

bool torch_has_aimdo(void) {
    return test.aimdo;
}

bool trim_would_do(struct device *device, uint64_t idle_bytes, uint64_t bytes) {
    (void)device, (void)idle_bytes, (void)bytes;
    return true;
}

bool python_is_held_here(void) {
    return true;
}

unsigned library_calling(void) {
    return 0;
}

struct reclaim *reclaim_of(const struct device *device) {
    (void)device;
    return &test.reclaim;
}

struct policy_settings settings_policy(void) {
    return (struct policy_settings){.mode = POLICY_ACT};
}

/* --- the ladder --- */

static void climbs(struct request *request, const char *expected, bool gives) {
    memset(test.climbed, 0, sizeof test.climbed);
    assert_true(last_resort(request) == gives);
    assert_string_equal(test.climbed, expected);
}

static int begin(void **state) {
    (void)state;
    memset(&test, 0, sizeof test);
    test.device.out = &test.out;
    test.device.paging.steps = (struct vm *)&steps_of_device;
    test.other.paging.steps = (struct vm *)&steps_of_other;
    test.aimdo = true;
    last_resort_weights(give_weights);
    return 0;
}

static void each_request_has_its_rungs(void **state) {
    static const struct {
        enum refused what;
        bool first;
        const char *rungs;
    } rows[] = {
        {REFUSED_CALL, false, "otfp"},   {REFUSED_SEGMENT, true, "ot"},
        {REFUSED_SEGMENT, false, "otp"}, {REFUSED_HANDLE, true, "ota"},
        {REFUSED_HANDLE, false, "otpa"}, {REFUSED_PAGES, true, "a"},
        {REFUSED_PAGES, false, "tpa"},   {REFUSED_ADDRESSES, false, "oOt"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct request request = {&test.device, WANTED, rows[i].what, rows[i].first, 0};
        climbs(&request, rows[i].rungs, false);
        climbs(&request, "", false);
    }
}

static void it_is_asked_again_after_each_that_gave(void **state) {
    (void)state;
    struct request request = {&test.device, WANTED, REFUSED_HANDLE, false, 0};
    test.gives = 't';
    climbs(&request, "ot", true);
    climbs(&request, "pa", false);
    request.next = 0;
    test.gives = 'a';
    climbs(&request, "otpa", true);
    climbs(&request, "", false);
}

/* PyTorch's cache, and what is idle here, may be too little: the next rung comes before the driver
 * is asked once more. */
static void some_is_not_enough(void **state) {
    (void)state;
    struct request request = {&test.device, WANTED, REFUSED_CALL, false, 0};
    test.gives = 'o';
    test.own_bytes = WANTED - 1;
    climbs(&request, "otfp", true);
    request.next = 0;
    test.own_bytes = WANTED;
    climbs(&request, "o", true);
    climbs(&request, "tfp", false);
    request.next = 0;
    test.gives = 'f';
    climbs(&request, "otfp", true);
}

static void without_aimdo_no_weights_are_asked_for(void **state) {
    (void)state;
    struct request request = {&test.device, WANTED, REFUSED_PAGES, false, 0};
    test.aimdo = false;
    climbs(&request, "tp", false);
}

static void only_what_pytorch_asks_again_is_first(void **state) {
    (void)state;
    assert_null(last_resort_for(REFUSED_CALL, WANTED).device); /* nothing is recorded */
    atomic_store(&recording_state, RECORDING_ON);
    test.releasable_bytes = 1;
    assert_true(last_resort_for(REFUSED_SEGMENT, WANTED).pytorch_retries);
    assert_true(last_resort_for(REFUSED_HANDLE, WANTED).pytorch_retries);
    assert_false(last_resort_for(REFUSED_CALL, WANTED).pytorch_retries);
    assert_false(last_resort_for(REFUSED_ADDRESSES, WANTED).pytorch_retries);
    test.capturing = true; /* then it does not empty its cache */
    assert_false(last_resort_for(REFUSED_SEGMENT, WANTED).pytorch_retries);
    test.capturing = false;
    test.releasable_bytes = 0;
    assert_false(last_resort_for(REFUSED_SEGMENT, WANTED).pytorch_retries);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_request_has_its_rungs, begin),
        cmocka_unit_test_setup(it_is_asked_again_after_each_that_gave, begin),
        cmocka_unit_test_setup(some_is_not_enough, begin),
        cmocka_unit_test_setup(without_aimdo_no_weights_are_asked_for, begin),
        cmocka_unit_test_setup(only_what_pytorch_asks_again_is_first, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
