package mps

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// makeDirectory makes a directory that clients of other users reach, whatever the umask, and refuses one that is
// there if another user could have put it there or can put things into it.
func makeDirectory(dir string) error {
	parent := filepath.Dir(dir)
	if _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err := makeDirectory(parent); err != nil {
			return err
		}
	}
	switch err := os.Mkdir(dir, 0o755); {
	case err == nil:
		return os.Chmod(dir, 0o755)
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	unsafe := func(what, remedy string) error { return fmt.Errorf("%w: %s %s (%s)", ErrUnsafe, dir, what, remedy) }
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return unsafe("is a symbolic link", "name the directory itself")
	case !info.IsDir():
		return unsafe("is no directory", "remove it")
	case !ownedByUs(info):
		return unsafe("belongs to another user", "use a directory of your own or of root's")
	case info.Mode()&0o002 != 0:
		return unsafe("can be written by everybody", "chmod o-w "+dir)
	}
	return nil
}
