/* reset.h: a device was reset, or its primary context released for the last time. */
#ifndef RESET_H
#define RESET_H

void reset_device(unsigned device);
void reset_primary_gone(unsigned device);

#endif
