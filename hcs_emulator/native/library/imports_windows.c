/* The system DLLs that the real computecore.dll brings into its process.
 *
 * It is an RPC client of the Host Compute Service and returns memory of the COM allocator, so rpcrt4.dll and ole32.dll
 * are loaded, and with ole32.dll its own imports (user32.dll among them). Importing the same here makes the memory of a
 * shim that is measured under Wine comparable with that on Windows.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <objbase.h>
#include <oleauto.h>
#include <rpc.h>

typedef void (*function)(void);

/* Never called: a reference is enough for an entry in the import table. */
__attribute__((used)) static function const imported[] = {
    (function)CoTaskMemAlloc,
    (function)SysFreeString,
    (function)RpcStringFreeW,
    (function)LoadStringW,
    (function)RegCloseKey,
};
