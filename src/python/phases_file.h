/* phases_file.h: the user's own rows of phases.h, from a file. */
#ifndef PHASES_FILE_H
#define PHASES_FILE_H

/* Reads them; what cannot be read, or understood, is told in one warning, and is no loss. */
void phases_file_read(const char *path);

#endif
