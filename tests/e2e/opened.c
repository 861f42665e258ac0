/* opened.c: stands for a vendor's driver that must not be loaded: it leaves the file that OPENED
 * names. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void leave_file(void) {
    const char *path = getenv("OPENED");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file)
        fclose(file);
}
