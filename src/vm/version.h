/* version.h: which dealings with the driver a proof of a card (base/proof.h) was made for. It must
 * change whenever the page engine begins to call the driver in another way, or relies on something
 * new of it, and for nothing else: each change asks every user for a new proof. */
#pragma once

enum { VM_VERSION = 2 };
