package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// others are the permissions of everybody but the owner; writable those that let them put files into a folder.
const (
	others   fs.FileMode = 0o077
	writable fs.FileMode = 0o022
)

// Prepare makes the folder, or makes sure that it is one that a cluster's keys can lie in: it belongs to this user, it
// holds a cluster or nothing, and nobody else can enter it. A folder that others could read is closed to them, and
// closed is true. One that others could write to is taken only while it is empty: they may have put there what is in
// it. A folder that is refused is left as it was.
func (d Dir) Prepare() (closed bool, err error) {
	if err := os.MkdirAll(d.Path, 0o700); err != nil {
		return false, err
	}
	info, err := os.Stat(d.Path)
	if err != nil {
		return false, err
	}
	if !info.IsDir() {
		return false, fmt.Errorf("%s is not a folder", d.Path)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return false, fmt.Errorf("folder %s belongs to user %d, who could read the cluster's keys there: use a folder of your own", d.Path, st.Uid)
	}
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return false, err
	}
	if err := d.refuse(info.Mode(), entries); err != nil || info.Mode().Perm()&others == 0 {
		return false, err
	}
	if err := os.Chmod(d.Path, 0o700); err != nil {
		return false, err
	}
	// Whoever was quick enough to put something in between is found here, and nobody comes after.
	if entries, err = os.ReadDir(d.Path); err == nil {
		err = d.refuse(info.Mode(), entries)
	}
	if err != nil {
		return false, errors.Join(err, os.Chmod(d.Path, info.Mode().Perm()))
	}
	return true, nil
}

// refuse keeps a data folder from being somebody's home directory, a folder for everybody's temporary files, or one
// that others have filled.
func (d Dir) refuse(mode fs.FileMode, entries []fs.DirEntry) error {
	if mode&fs.ModeSticky != 0 {
		return fmt.Errorf("folder %s is shared by several users: use a folder inside it", d.Path)
	}
	if len(entries) > 0 && mode.Perm()&writable != 0 {
		return fmt.Errorf("folder %s has mode %04o, so other users may have put files there (it has %s): use an empty folder, or, where you know what is in it, `chmod 700 %s` first", d.Path, mode.Perm(), entries[0].Name(), d.Path)
	}
	if _, err := os.Stat(d.Record()); err == nil {
		return nil
	}
	for _, e := range entries {
		if !slices.Contains(leftovers, e.Name()) {
			return fmt.Errorf("folder %s is not empty and holds no cluster (it has %s): give --data an empty folder", d.Path, e.Name())
		}
	}
	return nil
}
