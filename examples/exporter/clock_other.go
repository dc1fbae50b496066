//go:build !linux

package main

import "io/fs"

func bootClock(fs.FS) clock { return processClock() }
