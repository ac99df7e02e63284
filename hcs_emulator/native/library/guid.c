#include "guid.h"

/* In memory the first three groups are little-endian; the text shows them as numbers. */
static const int order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};

static bool dash_before(int byte) { return byte == 4 || byte == 6 || byte == 8 || byte == 10; }

void guid_to_text(const GUID *guid, char16_t text[GUID_CHARS]) {
    const unsigned char *bytes = (const unsigned char *)guid;
    int at = 0;
    for (int byte = 0; byte < 16; byte++) {
        if (dash_before(byte))
            text[at++] = u'-';
        text[at++] = (char16_t) "0123456789abcdef"[bytes[order[byte]] >> 4];
        text[at++] = (char16_t) "0123456789abcdef"[bytes[order[byte]] & 15];
    }
    text[at] = 0;
}

static int digit(char16_t character) {
    if (character >= u'0' && character <= u'9')
        return character - u'0';
    char16_t lower = character | 0x20;
    return lower >= u'a' && lower <= u'f' ? lower - u'a' + 10 : -1;
}

bool guid_from_text(PCWSTR text, GUID *guid) {
    unsigned char *bytes = (unsigned char *)guid;
    for (int byte = 0; byte < 16; byte++) {
        if (dash_before(byte) && *text++ != u'-')
            return false;
        int high = digit(text[0]);
        int low = high < 0 ? -1 : digit(text[1]);
        if (low < 0)
            return false;
        bytes[order[byte]] = (unsigned char)(high << 4 | low);
        text += 2;
    }
    return *text == 0;
}
