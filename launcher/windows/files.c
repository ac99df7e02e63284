/* Reads and writes small files. */
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "commands.h"

#define SHARE_ALL (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)

bool last_error_is_not_found(void) {
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

bool is_missing_or_empty(const wchar_t *path) {
    WIN32_FILE_ATTRIBUTE_DATA found;
    if (!GetFileAttributesExW(path, GetFileExInfoStandard, &found))
        return last_error_is_not_found();
    return (found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) == 0 && found.nFileSizeHigh == 0 && found.nFileSizeLow == 0;
}

static bool write_all(HANDLE file, const void *data, size_t length) {
    DWORD wrote = 0;
    return WriteFile(file, data, (DWORD)length, &wrote, NULL) && wrote == length;
}

bool write_file(const wchar_t *name, const char *content) {
    wchar_t temporary[32];
    swprintf(temporary, 32, L".%ls", name);
    HANDLE file = CreateFileW(temporary, GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE)
        return false;
    bool written = write_all(file, content, strlen(content));
    CloseHandle(file);
    written = written && MoveFileExW(temporary, name, MOVEFILE_REPLACE_EXISTING);
    if (!written)
        DeleteFileW(temporary);
    return written;
}

HANDLE create_log_file(const wchar_t *name) {
    return CreateFileW(
        name, FILE_APPEND_DATA | SYNCHRONIZE, SHARE_ALL, NULL, CREATE_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
}

bool write_stdout(const void *data, size_t length) { return write_all(GetStdHandle(STD_OUTPUT_HANDLE), data, length); }
