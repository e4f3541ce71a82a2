package vfs

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/berth-dev/berth/fleet/shell/budget"
)

// Volume is a tree that several containers can mount at once: an emptyDir, a configMap, a
// secret. Paths given to its methods are relative to its root. Safe for concurrent use.
type Volume struct {
	tree *tree
	root *node
}

// NewVolume makes an empty volume that holds at most limitBytes; 0 means no limit.
func NewVolume(limitBytes int64) *Volume { return NewVolumeIn(nil, limitBytes) }

// NewVolumeIn makes a volume whose content counts towards a budget shared with others too.
func NewVolumeIn(store *budget.Store, limitBytes int64) *Volume {
	return &Volume{tree: newTree(limitBytes, store), root: newDir(0o755)}
}

// Discard empties the volume and gives back what it held. Nothing can be written to it any more.
func (v *Volume) Discard() {
	t := v.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dropped {
		return
	}
	_ = t.grow(-t.kept.used)
	t.dropped, v.root.kids, v.root.data = true, nil, content{}
}

// fs is the volume seen as a file system of its own.
func (v *Volume) fs() *FS { return &FS{root: v} }

// WriteFile creates or replaces a file; missing directories are made.
func (v *Volume) WriteFile(name string, data []byte, mode fs.FileMode) error {
	return v.fs().WriteFile(name, data, mode)
}

// ReadFile returns a copy of a file's content.
func (v *Volume) ReadFile(name string) ([]byte, error) { return v.fs().ReadFile(name) }

// MkdirAll makes a directory and those above it.
func (v *Volume) MkdirAll(name string, mode fs.FileMode) error { return v.fs().MkdirAll(name, mode) }

// ReadDir lists a directory, sorted by name.
func (v *Volume) ReadDir(name string) ([]fs.DirEntry, error) { return v.fs().ReadDir(name) }

// RemoveAll removes a file or a whole directory; it is no error if there is none.
func (v *Volume) RemoveAll(name string) error { return v.fs().RemoveAll(name) }

// Usage is how many bytes the volume holds and may hold (0: no limit).
func (v *Volume) Usage() (used, limit int64) {
	v.tree.mu.Lock()
	defer v.tree.mu.Unlock()
	return v.tree.kept.used, v.tree.limit
}

// Content is a file of Replace.
type Content struct {
	Data []byte
	Mode fs.FileMode
}

// Replace swaps everything in the volume for files, keyed by relative path, in one step:
// whoever reads sees either all of the old or all of the new. Open files keep the old.
func (v *Volume) Replace(files map[string]Content) error {
	limit := v.tree.limit
	next := NewVolume(limit)
	for name, c := range files {
		if err := next.WriteFile(name, c.Data, c.Mode); err != nil {
			return err
		}
	}
	v.tree.mu.Lock()
	defer v.tree.mu.Unlock()
	if err := v.tree.grow(next.root.cost() - v.root.cost()); err != nil {
		return err
	}
	_ = v.tree.grow(v.root.cost() - v.root.leave()) // what is open stays for a while
	v.root.kids, v.root.image, v.root.mtime = next.root.kids, nil, next.root.mtime
	return nil
}

// Sub is the part of the volume at name, a directory or a single file, as a volume that
// shares its storage and its limit: what a subPath mounts. Links are not followed.
func (v *Volume) Sub(name string) (*Volume, error) {
	v.tree.mu.Lock()
	defer v.tree.mu.Unlock()
	n := v.root
	for part := range strings.SplitSeq(strings.Trim(path.Clean("/"+name), "/"), "/") {
		if part == "" {
			continue
		}
		if !n.isDir() {
			return nil, &fs.PathError{Op: "mount", Path: name, Err: ENOTDIR}
		}
		if n = n.kid(part); n == nil {
			return nil, &fs.PathError{Op: "mount", Path: name, Err: ENOENT}
		}
	}
	return &Volume{tree: v.tree, root: n}, nil
}

// MountPoint is a volume in a container's tree.
type MountPoint struct {
	Path     string
	Volume   *Volume
	ReadOnly bool
}

// Mount makes a volume visible at name, hiding what was there. The directory (or the file,
// where the volume is a single file) is made if it does not exist. A second mount at the
// same place replaces the first.
func (f *FS) Mount(name string, v *Volume, readOnly bool) error {
	name = path.Clean("/" + name)
	if name == "/" {
		return &fs.PathError{Op: "mount", Path: name, Err: EBUSY}
	}
	if err := f.mountPoint(name, v.root.isDir()); err != nil {
		return err
	}
	at, err := f.walk(name, true)
	if err != nil {
		return pathError("mount", name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mounts = slices.DeleteFunc(f.mounts, func(m MountPoint) bool { return m.Path == at.path })
	f.mounts = append(f.mounts, MountPoint{at.path, v, readOnly})
	slices.SortFunc(f.mounts, func(a, b MountPoint) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

// mountPoint makes what a mount at name covers.
func (f *FS) mountPoint(name string, dir bool) error {
	if dir {
		return f.MkdirAll(name, 0o755)
	}
	if _, err := f.Stat(name); err == nil {
		return nil
	}
	return f.WriteFile(name, nil, 0o644)
}

// Mounts lists the mounted volumes by path.
func (f *FS) Mounts() []MountPoint {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.Clone(f.mounts)
}

// mountAt is the mount whose path is exactly name.
func (f *FS) mountAt(name string) (MountPoint, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, m := range f.mounts {
		if m.Path == name {
			return m, true
		}
	}
	return MountPoint{}, false
}
