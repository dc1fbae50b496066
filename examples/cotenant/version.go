package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the release's linker flags; otherwise the module's is shown.
var version string

func runVersion(_ context.Context, args []string, std stdio) error {
	if err := parse(flagSet("version"), args, "Prints the version and what this build can reach.\n", 0, std); err != nil {
		return err
	}
	v := version
	if info, ok := debug.ReadBuildInfo(); ok && v == "" {
		v = info.Main.Version
	}
	_, err := fmt.Fprintf(std.out, "cotenant %s %s/%s %s\n", v, runtime.GOOS, runtime.GOARCH, build())
	return err
}
