/* man.h: the manual page, as troff with the man macros. */
#ifndef MAN_H
#define MAN_H

void man_write(void);

#endif
