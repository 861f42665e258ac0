/* phases_file.h: the user's own rows of phases.h, from a file. */
#pragma once

/* Reads them; what cannot be read, or understood, is told in one warning, and is no loss. */
void phases_file_read(const char *path);
