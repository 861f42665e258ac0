/* Memory that a card takes beside its pages, and what it is slow to do: the settings of config.h
 * that make the device hard. Without them nothing of this happens. */
#ifndef SIM_HARD_H
#define SIM_HARD_H

#include "driver.h"

struct op;

/* Memory of the device that is nobody's page. False: there is not enough. */
bool other_take(struct device *device, size_t bytes);
void other_give_back(struct device *device, size_t bytes);

/* Page tables, for addresses that the device is let in to. They stay until it is reset. */
bool tables_take(struct device *device, uintptr_t base, size_t bytes);
void tables_drop(struct device *device);

/* What is free but not yet told. */
void freed_note(const struct device *device, size_t bytes);
size_t freed_untold(const struct device *device);

/* How long the device works on an operation that takes so long in the mean. */
uint64_t device_ns(const struct op *op, uint64_t mean_ns);

#endif
