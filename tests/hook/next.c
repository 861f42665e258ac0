/* next.c: dlsym as others use it keeps working: RTLD_NEXT from a third library, RTLD_DEFAULT
 * from a library opened RTLD_LOCAL, and from constructors. Linked with libthird-O0.so and
 * libthird-O2.so. */
#include "check.h"

#include <dlfcn.h>

int chained(int depth);
void *third_O0_early(void);
void *third_O2_early(void);

/* The library is opened RTLD_LOCAL: from inside, RTLD_DEFAULT finds its own symbols; from here
 * not. */
static void local(const char *path, const char *own, const char *by_default) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *(*ask)(const char *) = NULL;
    if (!CHECK(library != NULL))
        return;
    *(void **)&ask = dlsym(library, by_default);
    CHECK(ask && ask(own) != NULL && ask(own) == dlsym(library, own));
    CHECK(dlsym(RTLD_DEFAULT, own) == NULL);
    CHECK(ask && ask("no_such_symbol") == NULL);
    dlclose(library);
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    CHECK(chained(0) == 2);
    CHECK(third_O0_early() != NULL && third_O0_early() == third_O2_early());
    CHECK(third_O0_early() == (void *)dlsym); /* ours, as anybody finds it */
    local(arguments[1], "local_O0_own", "local_O0_default");
    local(arguments[2], "local_O2_own", "local_O2_default");
    return check_result("next");
}
