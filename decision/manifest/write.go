package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// ErrExists is matched when Folder.Write would have to replace something.
var ErrExists = errors.New("manifest: the folder is not empty")

// Write puts the files into dir, all or none: they are written and synced beside it and put in place by one rename.
// dir must not exist or be an empty folder; else the error matches ErrExists and nothing is touched. Its parents
// are made. A path that is absolute, leaves dir or stands twice is an error that matches ErrInvalid.
func (f *Folder) Write(dir string) error {
	if err := f.checkPaths(); err != nil {
		return err
	}
	dir, err := resolve(dir)
	if err == nil {
		err = f.swap(dir)
	}
	if err != nil && !errors.Is(err, ErrExists) {
		return fmt.Errorf("manifest: %w", err)
	}
	return err
}

// swap fills a folder beside dir and puts it in dir's place.
func (f *Folder) swap(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%w: %s; choose another, or remove it", ErrExists, dir)
	}
	stage, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".new-*")
	if err != nil {
		return err
	}
	err = os.Chmod(stage, 0o755)
	for _, file := range f.Files {
		if err == nil {
			err = writeFile(filepath.Join(stage, filepath.FromSlash(file.Path)), file.Data)
		}
	}
	if err == nil {
		if err = os.Remove(dir); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = os.Rename(stage, dir)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(stage))
	}
	return nil
}

// resolve makes dir absolute, follows links to a folder that exists, and makes its parents.
func resolve(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		return target, nil
	}
	return dir, os.MkdirAll(filepath.Dir(dir), 0o755)
}

func (f *Folder) checkPaths() error {
	var l problem.List
	seen := map[string]bool{}
	for i, f := range f.Files {
		at := fmt.Sprintf("files[%d].path", i)
		l.If(!filepath.IsLocal(filepath.FromSlash(f.Path)) || strings.Contains(f.Path, "\\") || f.Path == ".", at,
			"use a relative path inside the folder", "%q leaves the folder", f.Path)
		l.If(seen[f.Path], at, "", "%q stands twice", f.Path)
		seen[f.Path] = true
	}
	return invalid(l.Err())
}

func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
