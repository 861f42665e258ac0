/* terminal.c: see terminal.h. It must ask nothing of the terminal that waits for an answer. */
#include "show/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Narrower, figures would be cut; 80 is a terminal's usual width;
 * lines longer than 110 are hard to read. */
enum { NARROWEST = 40, USUAL = 80, WIDEST = 110 };

static int columns_of(int descriptor) {
    struct winsize size;
    if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return USUAL;
    return size.ws_col < NARROWEST ? NARROWEST : size.ws_col > WIDEST ? WIDEST : size.ws_col;
}

struct terminal terminal_of(FILE *out) {
    const char *none = getenv("NO_COLOR"), *kind = getenv("TERM");
    int descriptor = fileno(out);
    if (descriptor < 0 || !isatty(descriptor))
        return (struct terminal){USUAL, false};
    bool plain = (none && *none) || !kind || !*kind || strcmp(kind, "dumb") == 0;
    return (struct terminal){columns_of(descriptor), !plain};
}
