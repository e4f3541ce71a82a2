package vfs

import (
	"io"
	"io/fs"
	"math"
	"path"
	"time"
)

// Info describes a file; it is what Stat and ReadDir return.
type Info struct {
	name  string
	size  int64
	mode  fs.FileMode
	mtime time.Time
	node  *node
}

// Name is the last element of the path.
func (i Info) Name() string { return i.name }

// Size is the length of a file's content or of a link's target.
func (i Info) Size() int64 { return i.size }

// Mode has the type and permission bits.
func (i Info) Mode() fs.FileMode { return i.mode }

// ModTime is when the content last changed.
func (i Info) ModTime() time.Time { return i.mtime }

// IsDir says whether it is a directory.
func (i Info) IsDir() bool { return i.mode.IsDir() }

// Sys is nil: there is nothing behind it.
func (i Info) Sys() any { return nil }

// Type and Info make an Info its own fs.DirEntry.
func (i Info) Type() fs.FileMode { return i.mode.Type() }

// Info returns i.
func (i Info) Info() (fs.FileInfo, error) { return i, nil }

// Same says whether two infos are of one file.
func Same(a, b Info) bool { return a.node == b.node }

// info is called with the tree's lock held.
func (f *FS) info(n *node, full string) Info {
	i := Info{name: path.Base(full), size: int64(n.data.size), mode: n.typ | n.perm, mtime: n.mtime, node: n}
	switch {
	case n.isDir():
		i.size = 4096
	case n.typ&fs.ModeSymlink != 0:
		i.size = int64(len(n.target))
	}
	return i
}

// Stat describes what name leads to; Lstat describes a link itself.
func (f *FS) Stat(name string) (Info, error) { return f.stat("stat", name, true) }

// Lstat describes name without following a link at its end.
func (f *FS) Lstat(name string) (Info, error) { return f.stat("lstat", name, false) }

func (f *FS) stat(op, name string, follow bool) (Info, error) {
	p, err := f.existing(name, follow)
	if err != nil {
		return Info{}, pathError(op, name, err)
	}
	p.vol.tree.mu.Lock()
	defer p.vol.tree.mu.Unlock()
	return f.info(p.node, p.path), nil
}

// Writable says why name could not be written to; nil if it could.
func (f *FS) Writable(name string) error {
	p, err := f.existing(name, true)
	if err == nil && p.ro {
		err = EROFS
	}
	return pathError("access", name, err)
}

// ReadDir lists a directory, sorted by name.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	p, err := f.existing(name, true)
	if err == nil && !p.node.isDir() {
		err = ENOTDIR
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	t := p.vol.tree
	t.mu.Lock()
	names := p.node.names()
	list := make([]fs.DirEntry, 0, len(names))
	for _, name := range names {
		list = append(list, f.entry(p.node, p.path, name))
	}
	t.mu.Unlock()
	return f.showMounts(p.path, list), nil
}

// entry describes one kid without unfolding it from the image.
func (f *FS) entry(dir *node, dirPath, name string) fs.DirEntry {
	full := path.Join(dirPath, name)
	if k, ok := dir.kids[name]; ok {
		return f.info(k, full)
	}
	return f.info(dir.image.find(name).node(), full)
}

// showMounts puts the roots of mounted volumes in place of the entries they cover.
func (f *FS) showMounts(dir string, list []fs.DirEntry) []fs.DirEntry {
	for i, e := range list {
		m, ok := f.mountAt(path.Join(dir, e.Name()))
		if !ok {
			continue
		}
		m.Volume.tree.mu.Lock()
		list[i] = f.info(m.Volume.root, m.Path)
		m.Volume.tree.mu.Unlock()
	}
	return list
}

// Readlink is the target of a symbolic link.
func (f *FS) Readlink(name string) (string, error) {
	p, err := f.existing(name, false)
	if err != nil {
		return "", pathError("readlink", name, err)
	}
	target, ok := p.link()
	if !ok {
		return "", pathError("readlink", name, EINVAL)
	}
	return target, nil
}

// RealPath resolves every link in name. The last element need not exist.
func (f *FS) RealPath(name string) (string, error) {
	p, err := f.walk(name, true)
	if err != nil {
		return "", pathError("realpath", name, err)
	}
	return p.path, nil
}

// ReadFile returns a copy of a file's content.
func (f *FS) ReadFile(name string) ([]byte, error) { return f.ReadHead(name, math.MaxInt64) }

// ReadHead returns a copy of the first n bytes of a file, or of all if it has fewer.
func (f *FS) ReadHead(name string, n int64) ([]byte, error) {
	h, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	return io.ReadAll(io.LimitReader(h, n))
}

// Entries is at least how many entries ReadDir of name would return; 0 where it would fail.
func (f *FS) Entries(name string) int {
	p, err := f.existing(name, true)
	if err != nil || !p.node.isDir() {
		return 0
	}
	p.vol.tree.mu.Lock()
	defer p.vol.tree.mu.Unlock()
	n := len(p.node.kids)
	if p.node.image != nil {
		n += len(p.node.image.Kids)
	}
	return n
}
