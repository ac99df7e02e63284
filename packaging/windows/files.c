/* Small files. */
#include "native.h"

#define SHARE_ALL (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)

bool was_absent(void) {
    DWORD error = GetLastError();
    return error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND;
}

ptrdiff_t read_file(const wchar_t *path, char *buffer, size_t size) {
    HANDLE file = CreateFileW(path, GENERIC_READ, SHARE_ALL, NULL, OPEN_EXISTING, 0, NULL);
    if (file == INVALID_HANDLE_VALUE)
        return -1;
    size_t length = 0;
    DWORD got = 1;
    bool is_whole = GetFileType(file) == FILE_TYPE_DISK;
    while (is_whole && got > 0 && length < size) {
        is_whole = ReadFile(file, buffer + length, (DWORD)(size - length), &got, NULL);
        length += got;
    }
    CloseHandle(file);
    if (!is_whole || length >= size) {
        SetLastError(ERROR_INVALID_DATA);
        return -1;
    }
    buffer[length] = '\0';
    return (ptrdiff_t)length;
}

bool is_empty(const wchar_t *path) {
    WIN32_FILE_ATTRIBUTE_DATA found;
    if (!GetFileAttributesExW(path, GetFileExInfoStandard, &found))
        return was_absent();
    return (found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) == 0 && found.nFileSizeHigh == 0 && found.nFileSizeLow == 0;
}

bool print(const void *data, size_t length) {
    DWORD wrote = 0;
    return WriteFile(GetStdHandle(STD_OUTPUT_HANDLE), data, (DWORD)length, &wrote, NULL) && wrote == length;
}
