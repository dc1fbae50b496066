package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxInput bounds what is read of one input, in bytes.
const maxInput = 64 << 20

// readInput reads a file, or standard input for "-".
func readInput(name string, stdin io.Reader) ([]byte, error) {
	switch name {
	case "":
		return nil, errors.New("name a file, or - for standard input")
	case "-":
	default:
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		stdin = f
	}
	return io.ReadAll(io.LimitReader(stdin, maxInput))
}

func printText(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// refuseReal completes the error of a GPU that cannot be reached.
func refuseReal(err error) error {
	return fmt.Errorf("%w\nthis build is %s; without -real a simulated GPU shows what the command does", err, build())
}
