/* GUIDs are sent as text: 36 characters. */
#ifndef GUID_H
#define GUID_H

#include <stdbool.h>

#include "hcs.h"

#define GUID_CHARS 37
void guid_to_text(const GUID *guid, char16_t text[GUID_CHARS]);
bool guid_from_text(PCWSTR text, GUID *guid);

#endif
