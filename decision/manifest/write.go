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

// Write puts the files into dir, all or none: they are written and synced
// beside it and put in place by one rename. dir must not exist or be an empty
// folder; else the error matches ErrExists and nothing is touched. Its parents
// are made. A path that is absolute, leaves dir or stands twice is an error
// that matches ErrInvalid.
func (f *Folder) Write(dir string) error {
	empty, err := f.target(&dir)
	if err == nil && !empty {
		err = fmt.Errorf("%w: %s; choose another, or remove it", ErrExists, dir)
	}
	if err != nil {
		return err
	}
	_, err = f.write(dir, empty)
	return err
}

// Replace is Write for a folder that may hold something: what stands at dir is
// renamed first, and backup says to what ("" when there was nothing). Nothing
// is deleted.
func (f *Folder) Replace(dir string) (backup string, err error) {
	empty, err := f.target(&dir)
	if err != nil {
		return "", err
	}
	return f.write(dir, empty)
}

// target checks the files' paths, resolves dir and reports whether it is
// missing or an empty folder.
func (f *Folder) target(dir *string) (empty bool, err error) {
	if err := f.checkPaths(); err != nil {
		return false, err
	}
	if *dir, err = resolve(*dir); err != nil {
		return false, fmt.Errorf("manifest: %w", err)
	}
	entries, err := os.ReadDir(*dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("manifest: %w", err)
	}
	return len(entries) == 0, nil
}

func (f *Folder) write(dir string, empty bool) (backup string, err error) {
	stage, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".new-*")
	if err != nil {
		return "", fmt.Errorf("manifest: %w", err)
	}
	if backup, err = f.swap(stage, dir, empty); err != nil {
		return "", fmt.Errorf("manifest: %w", errors.Join(err, os.RemoveAll(stage)))
	}
	return backup, nil
}

// swap fills stage and puts it in dir's place.
func (f *Folder) swap(stage, dir string, empty bool) (backup string, err error) {
	if err := os.Chmod(stage, 0o755); err != nil {
		return "", err
	}
	for _, file := range f.Files {
		if err := writeFile(filepath.Join(stage, filepath.FromSlash(file.Path)), file.Data); err != nil {
			return "", err
		}
	}
	if empty {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	} else if backup, err = moveAside(dir); err != nil {
		return "", err
	}
	if err := os.Rename(stage, dir); err != nil {
		if backup != "" {
			err = errors.Join(err, os.Rename(backup, dir))
		}
		return "", err
	}
	return backup, nil
}

// resolve makes dir absolute, follows links to a folder that exists, and makes
// its parents.
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

// moveAside renames dir to the first free name of the form dir.old-N.
func moveAside(dir string) (string, error) {
	for n := 1; n < 1000; n++ {
		to := fmt.Sprintf("%s.old-%d", dir, n)
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			return to, os.Rename(dir, to)
		}
	}
	return "", fmt.Errorf("%s.old-1 to -999 are taken; remove some", dir)
}
