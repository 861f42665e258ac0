/* browser.h: opens a page that vramgc has written in the user's browser. It opens nothing that
 * comes from elsewhere. */
#pragma once

#include <stdbool.h>

/* Says where the page is, and how to see it where there is no browser; false: it was not opened. */
bool browser_open(const char *path);
