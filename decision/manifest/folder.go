// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// ErrExists is matched when Folder.Write would have to replace something.
var ErrExists = errors.New("manifest: the folder is not empty")

// Write puts the files into dir, all or none: they are written next to it and put in place by one rename. dir must not
// exist or be an empty folder; else the error matches ErrExists and nothing is touched. Its parents are made. A path
// that is absolute or leaves dir is an error.
func (f *Folder) Write(dir string) error {
	dir, err := resolve(dir)
	if err == nil {
		err = f.swap(dir)
	}
	if err != nil && !errors.Is(err, ErrExists) {
		return fmt.Errorf("manifest: %w", err)
	}
	return err
}

// swap fills a folder next to dir and puts it in dir's place.
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
	if err = os.Chmod(stage, 0o755); err == nil {
		err = f.fill(stage)
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

// fill writes the files into a folder.
func (f *Folder) fill(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, file := range f.Files {
		err := root.MkdirAll(path.Dir(file.Path), 0o755)
		if err == nil {
			err = root.WriteFile(file.Path, file.Data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
