/* monitor.h: what stands ready for those who collect vramgc's metrics: rules for Prometheus, and a
 * dashboard for Grafana. Both are of the table of figures; neither reads a record. */
#pragma once

#include <stdio.h>

void monitor_rules(FILE *out);
void monitor_dashboard(FILE *out);
