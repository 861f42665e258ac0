/* man.h: the manual page, as troff with the man macros. */
#pragma once

void man_write(void);
