/* html_data.h: what the pictures of a page are drawn from, as JSON within script elements. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "read/stats_file.h"

/* The JSON report itself. */
void html_data_report(FILE *out, struct stats_file *const *records, size_t count);

/* The maps of PyTorch's blocks that lie beside the files. */
void html_data_maps(FILE *out, struct stats_file *const *records, size_t count);
