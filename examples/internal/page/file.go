// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// WriteFile writes a file whole or not at all. A device or a pipe at path is written to and never replaced.
func WriteFile(path string, data []byte) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, data, 0o644)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// WriteHTML writes a page to the file of -report, where one is named.
func WriteHTML(path string, write func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return WriteFile(path, b.Bytes())
}

// WriteJSON writes a value as indented JSON to a file.
func WriteJSON(path string, v any) error {
	var b bytes.Buffer
	if err := JSON(&b, v); err != nil {
		return err
	}
	return WriteFile(path, b.Bytes())
}

// CanWrite returns why WriteFile would fail at path, as far as can be known before:
// the result of a long run should not be lost for the name of a file.
func CanWrite(path string) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a folder; name a file", path)
	case err == nil && !info.Mode().IsRegular():
		return nil
	}
	folder := filepath.Dir(path)
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return fmt.Errorf("there is no folder %s", folder)
	}
	f, err := os.CreateTemp(folder, "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("nothing can be written to %s: %w", folder, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Named returns the function of a flag that names a file to write: one that can be written, and with one of the
// endings, where they select the format. A device or a pipe may have any name.
func Named(path *string, endings ...string) func(string) error {
	return func(name string) error {
		info, err := os.Stat(name)
		file := err != nil || info.Mode().IsRegular()
		if file && len(endings) > 0 && !slices.Contains(endings, strings.ToLower(filepath.Ext(name))) {
			return fmt.Errorf("name a file that ends in %s", strings.Join(endings, " or "))
		}
		*path = name
		return CanWrite(name)
	}
}

// Report adds the flag that names the file of a page.
func Report(fl *flag.FlagSet, path *string, usage string) {
	fl.Func("report", usage+" to `FILE.html`", Named(path, ".html"))
}

// maxInput bounds the bytes read of one input.
const maxInput = 64 << 20

// Read reads a file, or standard input for "-".
func Read(name string, stdin io.Reader) ([]byte, error) {
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

// JSON prints a value as indented JSON.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
