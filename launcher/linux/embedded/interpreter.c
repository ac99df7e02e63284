/* The linked interpreter: the same Python, linked statically with a fixed configuration. It is experimental: it depends on
   internals of CPython and has to be adapted to new versions.

   It accepts only the form of command line that the launcher and the standby use:

       interpreter -IS [-X OPTION] FILE.pyc ARGUMENTS...

   and behaves as python3 does: no environment variables, no site, the same path. It saves relocations (it is linked to a
   fixed address), the search for the standard library, reading `encodings` from files, and page faults of memory that is
   certain to be used. build_interpreter.py writes `configuration.h` from what the real interpreter reports. */
#define _GNU_SOURCE
#include <Python.h>
#include <fcntl.h>
#include <malloc.h>
#include <marshal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "configuration.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; earlier kernels refuse it, and fault the pages in one by one */
#endif
#define PYC_HEADER 16
/* A daemon fills this many of pymalloc's arenas before its first answer. */
#define FILLED_ARENAS 2

#if PY_VERSION_HEX >> 16 == 0x030b
/* Python 3.11 has its frozen modules as code objects in its data section: 880 kB, all written to at the start, for two
   dozen modules of which a shim imports ten. This replaces that part of the library, which is then not linked: the ten
   modules are marshalled constants, which all shims share. Code objects of later versions are immortal.

   The first bootstrap module is `zipimport`, which a shim does not need: Python starts with an empty one. */
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

/* A later import of zipimport loads the real module from its file. */
static void remove_empty_zipimport(void) {
    PyObject *modules = PyImport_GetModuleDict();
    _PyImport_FrozenBootstrap++;
    if (PyDict_GetItemString(modules, "zipimport") != NULL)
        PyDict_DelItemString(modules, "zipimport");
}
#else
#define remove_empty_zipimport()
#endif

extern char __data_start[], _edata[];

/* Python writes to nearly all of its data when it starts: fault them in at once. */
static void populate_data(void) {
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

static void exit_on_error(PyStatus status) {
    if (PyStatus_Exception(status))
        Py_ExitStatusException(status);
}

static void set_text(PyConfig *config, wchar_t **place, const wchar_t *text) { exit_on_error(PyConfig_SetString(config, place, text)); }

static wchar_t *decode(const char *text) {
    wchar_t *wide = Py_DecodeLocale(text, NULL);
    if (wide == NULL)
        exit_on_error(PyStatus_NoMemory());
    return wide;
}

static void initialize(int argc, char **argv, int file, const char *option) {
    PyPreConfig before;
    PyPreConfig_InitIsolatedConfig(&before);
    before.utf8_mode = 1;
    exit_on_error(Py_PreInitialize(&before));
    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    config.site_import = 0;
    config.install_signal_handlers = 1;
    config.parse_argv = 0;
    wchar_t *program = decode(argv[0]);
    set_text(&config, &config.program_name, program);
    set_text(&config, &config.executable, program);
    set_text(&config, &config.base_executable, program);
    set_text(&config, &config.home, PREFIX);
    set_text(&config, &config.prefix, PREFIX);
    set_text(&config, &config.base_prefix, PREFIX);
    set_text(&config, &config.exec_prefix, EXEC_PREFIX);
    set_text(&config, &config.base_exec_prefix, EXEC_PREFIX);
    set_text(&config, &config.stdlib_dir, STDLIB);
    set_text(&config, &config.platlibdir, PLATLIBDIR);
    static const wchar_t *const path[] = {SEARCH_PATH};
    config.module_search_paths_set = 1;
    for (size_t at = 0; at < sizeof path / sizeof *path; at++)
        exit_on_error(PyWideStringList_Append(&config.module_search_paths, path[at]));
    for (int at = 0; at < argc; at++)
        exit_on_error(PyWideStringList_Append(&config.orig_argv, decode(argv[at])));
    for (int at = file; at < argc; at++)
        exit_on_error(PyWideStringList_Append(&config.argv, decode(argv[at])));
    if (option != NULL)
        exit_on_error(PyWideStringList_Append(&config.xoptions, decode(option)));
    exit_on_error(Py_InitializeFromConfig(&config));
    PyConfig_Clear(&config);
}

/* The code object of a .pyc file; NULL with an exception set. */
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
    mallopt(M_ARENA_MAX, 1); /* threads allocate under the GIL: more arenas would only use memory */
    populate_data();
    PyObjectArenaAllocator arenas = {.alloc = map_arena, .free = unmap_arena};
    PyObject_SetArenaAllocator(&arenas);
    PyImport_FrozenModules = frozen_modules;
    initialize(argc, argv, file, option);
    remove_empty_zipimport();
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
