// Command interop is the Go side of the ttrpc tests and benchmarks: a server and a client built on containerd's ttrpc.
//
//	interop serve SOCKET            serve interop.Service until stdin closes
//	interop check SOCKET            call every method of a server; one JSON line per check
//	interop bench SOCKET CALLERS N  N unary calls shared by CALLERS goroutines on one connection; one JSON line
//	                                (… SERVICE METHOD VALUE: of that method, with the value as the request's field 1)
//	interop bench-many CALLERS N SERVICE METHOD SOCKET=VALUE …
//	                                the same over several servers, with a connection to each
//	interop pump                    copy stdin to stdout as Go's shims copy a stream
//
// All messages are protobuf's well-known wrappers, so that nothing has to be generated.
package main

import (
	"fmt"
	"os"
	"strconv"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return serve(args[1])
	case len(args) == 2 && args[0] == "check":
		return check(args[1])
	case len(args) == 1 && args[0] == "pump":
		return pump()
	case len(args) > 5 && args[0] == "bench-many":
		callers, calls, err := counts(args[1:])
		if err != nil {
			return err
		}
		return benchMany(callers, calls, args[3], args[4], args[5:])
	case (len(args) == 4 || len(args) == 7) && args[0] == "bench":
		callers, calls, err := counts(args[2:])
		if err != nil {
			return err
		}
		if len(args) == 4 {
			args = append(args, service, "Echo", "0123456789abcdef0123456789abcdef")
		}
		return bench(args[1], callers, calls, args[4], args[5], args[6])
	}
	return fmt.Errorf("usage: interop serve SOCKET | check SOCKET | bench SOCKET CALLERS CALLS [SERVICE METHOD VALUE] | bench-many CALLERS CALLS SERVICE METHOD SOCKET=VALUE … | pump")
}

// counts parses the numbers of callers and of calls.
func counts(args []string) (callers, calls int, err error) {
	if callers, err = strconv.Atoi(args[0]); err != nil {
		return 0, 0, err
	}
	calls, err = strconv.Atoi(args[1])
	return callers, calls, err
}
