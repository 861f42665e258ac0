/* See host_defines.h: nothing of the vendor's compiler checks is needed for plain C. */
#ifndef SIM_COMPAT_HOST_CONFIG_H
#define SIM_COMPAT_HOST_CONFIG_H
#endif
