package page

import (
	"os"
	"os/signal"
	"syscall"
)

// OutlivePipe keeps a closed pipe from ending the program at once: writing to it
// fails, as to a full disk, and what the program has started it can stop.
func OutlivePipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
