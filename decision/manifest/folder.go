// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
)

// Write puts the files into dir, which must not exist or be an empty folder; else nothing is touched. Its parents are
// made. A path that is absolute or leaves dir is an error. After an error dir is gone.
func (f *Folder) Write(dir string) error {
	switch entries, err := os.ReadDir(dir); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("manifest: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("manifest: the folder is not empty: %s; choose another, or remove it", dir)
	}
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = f.fill(dir)
	}
	if err != nil {
		return fmt.Errorf("manifest: %w", errors.Join(err, os.RemoveAll(dir)))
	}
	return nil
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
