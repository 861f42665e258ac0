/* linked.c: a program linked with CUDA's own library, whose direct calls the loader binds by
 * their versioned names. FRAGMENTS: which fragments to run. */
#include "api.h"
#include "check.h"

int main(void) {
    FRAGMENTS();
    return check_result("linked");
}
