/* reset.h: a device was reset, or its primary context released for the last time. */
#pragma once

void reset_device(unsigned device);
void reset_primary_gone(unsigned device);
