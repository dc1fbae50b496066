package mps

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cotenant/cotenant/sharing"
)

// networkMagic are the file system types of statfs(2) that live on another machine: NFS, SMB, CIFS, SMB2, AFS, 9P,
// Coda, Ceph, Lustre, GPFS. FUSE is left out: it can be either.
var networkMagic = map[uint32]bool{
	0x6969: true, 0x517b: true, 0xff534d42: true, 0xfe534d42: true, 0x5346414f: true,
	0x01021997: true, 0x73757245: true, 0x00c36400: true, 0x0bd00bd0: true, 0x47504653: true,
}

// networkFileSystem looks at the directory or, if it is not there yet, at its nearest parent.
func networkFileSystem(dir string) sharing.Answer {
	for {
		var st syscall.Statfs_t
		err := syscall.Statfs(dir, &st)
		if err == nil {
			return sharing.AnswerOf(networkMagic[uint32(st.Type)]) // the magics have 32 bits; Type's width varies
		}
		if err != syscall.ENOENT || dir == filepath.Dir(dir) {
			return sharing.AnswerUnknown
		}
		dir = filepath.Dir(dir)
	}
}

// ownedByUs reports whether a file is this user's or root's.
func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}
