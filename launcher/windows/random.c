/* py-rng.dll: what Python asks bcrypt.dll for, without bcrypt.dll.

   Python wants random bytes once or twice in its life and nothing else of that library. Under Wine it brings a whole encryption library
   along, with seven more that this one needs, into every shim. So Python's import is renamed to this library, which asks the system's generator,
   RtlGenRandom by its other name: on Windows it is the same one, in a library that Python has loaded anyway. */
__declspec(dllimport) unsigned char __stdcall SystemFunction036(void *buffer, unsigned long length);

/* Python gives no algorithm and asks for the system's preferred one. */
long __stdcall BCryptGenRandom(void *algorithm, unsigned char *buffer, unsigned long length, unsigned long flags) {
    const unsigned long system_preferred = 2;
    const long success = 0, unsuccessful = (long)0xC0000001, invalid_parameter = (long)0xC000000D;
    if (algorithm != 0 || flags != system_preferred)
        return invalid_parameter;
    return SystemFunction036(buffer, length) ? success : unsuccessful;
}
