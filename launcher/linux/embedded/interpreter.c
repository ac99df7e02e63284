/* An interpreter that starts in half the time: the same Python, linked into a program that knows everything that python3
   would first find out.

   It takes the form of command line that the launcher and the standby use, and no other:

       interpreter -IS [-X OPTION] FILE.pyc ARGUMENTS...

   and does what python3 would: no environment variables, no site, the same path. What it saves: relocations (it is
   linked to a fixed address), the search for the standard library, reading `encodings`, which every Python needs first,
   from files, and the page faults of memory that is certain to be used. `facts.h` is written by build_interpreter.py from
   what the real interpreter says about itself. */
#define _GNU_SOURCE
#include <Python.h>
#include <fcntl.h>
#include <malloc.h>
#include <marshal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "facts.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; earlier ones refuse it, and fault pages in one by one */
#endif
#define PYC_HEADER 16
/* A daemon fills this many of pymalloc's arenas before it answers anybody. */
#define FILLED_ARENAS 2

#if PY_VERSION_HEX >> 16 == 0x030b
/* Python 3.11 has its frozen modules as code objects among its data: 880 kB, all of which it writes to when it starts,
   for two dozen modules of which a shim loads ten. In place of that part of the library, which is then not linked: these
   ten as constants, shared by all shims, to be loaded as from files. Objects like these of later versions are immortal.

   The first of the bootstrap's modules is `zipimport`, which nothing here is for: Python starts with an empty one. */
struct _module_alias {
    const char *name, *original;
};
static const struct _frozen no_modules[] = {{.name = NULL}};
static const struct _module_alias aliases[] = {ALIASES};
const struct _frozen *_PyImport_FrozenBootstrap = bootstrap_modules, *_PyImport_FrozenStdlib = no_modules,
                     *_PyImport_FrozenTest = no_modules, *PyImport_FrozenModules = frozen_modules;
const struct _module_alias *_PyImport_FrozenAliases = aliases;
int _Py_Deepfreeze_Init(void) { return 0; }
void _Py_Deepfreeze_Fini(void) {}

/* Whoever should want zipimport gets it from its file. */
static void forget_first(void) {
    PyObject *modules = PyImport_GetModuleDict();
    _PyImport_FrozenBootstrap++;
    if (PyDict_GetItemString(modules, "zipimport") != NULL)
        PyDict_DelItemString(modules, "zipimport");
}
#else
#define forget_first()
#endif

extern char __data_start[], _edata[];

/* Nearly all of a Python's data are written to when it starts. */
static void touch_data(void) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)__data_start & ~(page - 1);
    madvise((void *)begin, (((uintptr_t)_edata + page - 1) & ~(page - 1)) - begin, MADV_POPULATE_WRITE);
}

static void *map_arena(void *context, size_t size) {
    static int arenas;
    (void)context;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (arenas++ < FILLED_ARENAS ? MAP_POPULATE : 0);
    void *arena = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    return arena == MAP_FAILED ? NULL : arena;
}

static void unmap_arena(void *context, void *arena, size_t size) {
    (void)context;
    munmap(arena, size);
}

static void fail(PyStatus status) {
    if (PyStatus_Exception(status))
        Py_ExitStatusException(status);
}

static void set(PyConfig *config, wchar_t **place, const wchar_t *text) { fail(PyConfig_SetString(config, place, text)); }

static wchar_t *decoded(const char *text) {
    wchar_t *wide = Py_DecodeLocale(text, NULL);
    if (wide == NULL)
        fail(PyStatus_NoMemory());
    return wide;
}

static void start(int argc, char **argv, int file, const char *option) {
    PyPreConfig before;
    PyPreConfig_InitIsolatedConfig(&before);
    before.utf8_mode = 1;
    fail(Py_PreInitialize(&before));
    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    config.site_import = 0;
    config.install_signal_handlers = 1;
    config.parse_argv = 0;
    wchar_t *program = decoded(argv[0]);
    set(&config, &config.program_name, program);
    set(&config, &config.executable, program);
    set(&config, &config.base_executable, program);
    set(&config, &config.home, PREFIX);
    set(&config, &config.prefix, PREFIX);
    set(&config, &config.base_prefix, PREFIX);
    set(&config, &config.exec_prefix, EXEC_PREFIX);
    set(&config, &config.base_exec_prefix, EXEC_PREFIX);
    set(&config, &config.stdlib_dir, STDLIB);
    set(&config, &config.platlibdir, PLATLIBDIR);
    static const wchar_t *const path[] = {SEARCH_PATH};
    config.module_search_paths_set = 1;
    for (size_t at = 0; at < sizeof path / sizeof *path; at++)
        fail(PyWideStringList_Append(&config.module_search_paths, path[at]));
    for (int at = 0; at < argc; at++)
        fail(PyWideStringList_Append(&config.orig_argv, decoded(argv[at])));
    for (int at = file; at < argc; at++)
        fail(PyWideStringList_Append(&config.argv, decoded(argv[at])));
    if (option != NULL)
        fail(PyWideStringList_Append(&config.xoptions, decoded(option)));
    fail(Py_InitializeFromConfig(&config));
    PyConfig_Clear(&config);
}

/* The code in a .pyc file; NULL with an exception. */
static PyObject *read_code(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    PyObject *code = NULL;
    if (fd < 0 || fstat(fd, &status) != 0)
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
    char *data = PyMem_RawMalloc((size_t)status.st_size + 1);
    ssize_t length = data == NULL ? -1 : read(fd, data, (size_t)status.st_size);
    close(fd);
    if (length > PYC_HEADER && memcmp(data, MAGIC, 4) == 0)
        code = PyMarshal_ReadObjectFromString(data + PYC_HEADER, length - PYC_HEADER);
    else
        PyErr_Format(PyExc_ImportError, "%s is not compiled for this Python: use `runhcs install` again", path);
    PyMem_RawFree(data);
    return code;
}

int main(int argc, char **argv) {
    int file = 2;
    const char *option = NULL;
    if (argc > 4 && strcmp(argv[2], "-X") == 0) {
        option = argv[3];
        file = 4;
    }
    if (argc <= file || strcmp(argv[1], "-IS") != 0) {
        fprintf(stderr, "%s: this is for containerd-shim-runhcs-v1 only: -IS [-X OPTION] FILE.pyc ...\n", argv[0]);
        return 2;
    }
    mallopt(M_ARENA_MAX, 1); /* threads allocate Python objects, under one lock: further arenas are only memory */
    touch_data();
    PyObjectArenaAllocator arenas = {.alloc = map_arena, .free = unmap_arena};
    PyObject_SetArenaAllocator(&arenas);
    PyImport_FrozenModules = frozen_modules;
    start(argc, argv, file, option);
    forget_first();
    PyObject *main_module = PyImport_AddModule("__main__"), *code = read_code(argv[file]), *result = NULL;
    if (code != NULL && main_module != NULL) {
        PyObject *names = PyModule_GetDict(main_module);
        result = PyEval_EvalCode(code, names, names);
    }
    if (result == NULL) {
        PyErr_Print();
        return 1;
    }
    return Py_FinalizeEx() < 0 ? 120 : 0;
}
