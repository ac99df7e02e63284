/* cmd.exe of the stand-in images: Wine's own prints no prompt with /Q, which a spec expects on the stream of `attach`.

     cmd /c PROGRAM [ARGUMENTS] [>nul]     runs a program
     cmd /q                                runs a program for each line of its input, after a prompt */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <string.h>

#define LONGEST 8192

static DWORD run_program(char *command) {
    STARTUPINFOA startup = {.cb = sizeof startup, .dwFlags = STARTF_USESTDHANDLES};
    SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
    PROCESS_INFORMATION created;
    DWORD code = 1;
    char *redirection = strstr(command, ">nul");
    startup.hStdInput = GetStdHandle(STD_INPUT_HANDLE);
    startup.hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE);
    startup.hStdError = GetStdHandle(STD_ERROR_HANDLE);
    if (redirection != NULL) {
        *redirection = '\0';
        startup.hStdOutput = CreateFileA("NUL", GENERIC_WRITE, 0, &inherited, OPEN_EXISTING, 0, NULL);
    }
    if (!CreateProcessA(NULL, command, NULL, NULL, TRUE, 0, NULL, NULL, &startup, &created)) {
        fprintf(stderr, "'%s' is not recognized as a program.\r\n", command);
        return code;
    }
    WaitForSingleObject(created.hProcess, INFINITE);
    GetExitCodeProcess(created.hProcess, &code);
    return code;
}

static int run_lines(void) {
    char line[LONGEST], directory[MAX_PATH];
    for (;;) {
        GetCurrentDirectoryA(sizeof directory, directory);
        printf("\r\n%s>", directory);
        fflush(stdout);
        if (fgets(line, sizeof line, stdin) == NULL)
            return 0;
        line[strcspn(line, "\r\n")] = '\0';
        if (_stricmp(line, "exit") == 0)
            return 0;
        if (line[0] != '\0')
            run_program(line);
    }
}

int main(int count, char **arguments) {
    char command[LONGEST] = "";
    _setmode(_fileno(stdout), _O_BINARY); /* otherwise the runtime writes CR CR LF */
    if (count == 2 && _stricmp(arguments[1], "/q") == 0)
        return run_lines();
    if (count < 3 || _stricmp(arguments[1], "/c") != 0) {
        fprintf(stderr, "usage: cmd /c PROGRAM, or cmd /q\n");
        return 1;
    }
    for (int index = 2; index < count; index++)
        if (strlen(command) + strlen(arguments[index]) + 2 < sizeof command)
            strcat(strcat(command, index > 2 ? " " : ""), arguments[index]);
    return (int)run_program(command);
}
