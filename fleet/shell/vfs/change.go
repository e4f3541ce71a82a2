package vfs

import (
	"io/fs"
	"path"
	"strings"
	"time"
)

// WriteFile creates or replaces a file, making the directories above it. A mode of 0 means 0644.
func (f *FS) WriteFile(name string, data []byte, mode fs.FileMode) error {
	if mode == 0 {
		mode = 0o644
	}
	if err := f.MkdirAll(path.Dir(path.Clean("/"+name)), 0o755); err != nil {
		return err
	}
	h, err := f.OpenFile(name, WriteOnly|Create|Truncate, mode)
	if err != nil {
		return err
	}
	defer h.Close()
	if _, err := h.Write(data); err != nil {
		return err
	}
	return f.Chmod(name, mode)
}

// Mkdir makes one directory.
func (f *FS) Mkdir(name string, perm fs.FileMode) error {
	return f.create("mkdir", strings.TrimRight(name, "/"), func() *node { return newDir(perm) })
}

// Symlink makes a symbolic link at name; target is not looked at.
func (f *FS) Symlink(target, name string) error {
	if len(target) > maxPath {
		return pathError("symlink", name, ENAMETOOLONG)
	}
	return f.create("symlink", name, func() *node {
		return &node{typ: fs.ModeSymlink, perm: 0o777, mtime: time.Now(), target: target}
	})
}

func (f *FS) create(op, name string, make func() *node) error {
	p, err := f.walk(name, false)
	switch {
	case err != nil:
		return pathError(op, name, err)
	case p.node != nil:
		return pathError(op, name, EEXIST)
	case p.ro:
		return pathError(op, name, EROFS)
	}
	t := p.vol.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.dir.kid(p.name) != nil {
		return pathError(op, name, EEXIST)
	}
	return pathError(op, name, t.add(p.dir, p.name, make()))
}

// MkdirAll makes a directory and those above it; directories that exist are left alone.
func (f *FS) MkdirAll(name string, perm fs.FileMode) error {
	if perm == 0 {
		perm = 0o755
	}
	if p, err := f.existing(name, true); err == nil {
		if p.node.isDir() {
			return nil
		}
		return pathError("mkdir", name, ENOTDIR)
	}
	name = path.Clean("/" + name)
	if err := f.MkdirAll(path.Dir(name), perm); err != nil {
		return err
	}
	if err := f.Mkdir(name, perm); err != nil && !isDir(f, name) {
		return err
	}
	return nil
}

func isDir(f *FS, name string) bool {
	info, err := f.Stat(name)
	return err == nil && info.IsDir()
}

// Remove removes a file, a link or an empty directory.
func (f *FS) Remove(name string) error { return f.remove(name, false) }

// RemoveAll removes name and everything below it. It is no error if there is nothing.
func (f *FS) RemoveAll(name string) error {
	err := f.remove(name, true)
	if pe, ok := err.(*fs.PathError); ok && pe.Err == ENOENT {
		return nil
	}
	return err
}

func (f *FS) remove(name string, all bool) error {
	p, err := f.existing(name, false)
	switch {
	case err != nil:
		return pathError("remove", name, err)
	case p.rooted || f.mountBelow(p.path):
		return pathError("remove", name, EBUSY)
	case p.ro:
		return pathError("remove", name, EROFS)
	}
	t := p.vol.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.node.isDir() && !all && len(p.node.names()) > 0 {
		return pathError("remove", name, ENOTEMPTY)
	}
	t.remove(p.dir, p.name)
	return nil
}

// mountBelow says whether a volume is mounted somewhere under dir.
func (f *FS) mountBelow(dir string) bool {
	for _, m := range f.Mounts() {
		if strings.HasPrefix(m.Path, dir+"/") {
			return true
		}
	}
	return false
}

// Rename moves an entry within one volume; between volumes it returns EXDEV.
func (f *FS) Rename(from, to string) error {
	src, err := f.writable(from, false)
	if err == nil && src.node == nil {
		err = ENOENT
	}
	if err != nil {
		return pathError("rename", from, err)
	}
	dst, err := f.writable(to, false)
	if err != nil {
		return pathError("rename", to, err)
	}
	return pathError("rename", to, f.move(src, dst))
}

func (f *FS) move(src, dst place) error {
	switch {
	case src.rooted || dst.rooted || f.mountBelow(src.path):
		return EBUSY
	case src.vol.tree != dst.vol.tree:
		return EXDEV
	case src.path == dst.path:
		return nil
	case strings.HasPrefix(dst.path, src.path+"/"):
		return EINVAL
	}
	t := src.vol.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := replaceable(src.node, dst.node); err != nil {
		return err
	}
	if dst.node != nil {
		t.remove(dst.dir, dst.name)
	}
	src.dir.drop(src.name)
	dst.dir.put(dst.name, src.node)
	dst.dir.mtime = time.Now()
	return nil
}

// replaceable says why old may not be replaced by a rename of n.
func replaceable(n, old *node) error {
	switch {
	case old == nil:
		return nil
	case old.isDir() && !n.isDir():
		return EISDIR
	case !old.isDir() && n.isDir():
		return ENOTDIR
	case old.isDir() && len(old.names()) > 0:
		return ENOTEMPTY
	}
	return nil
}

// Chmod sets the permission bits.
func (f *FS) Chmod(name string, mode fs.FileMode) error {
	return f.change("chmod", name, func(n *node) { n.perm = mode.Perm() })
}

// Chtimes sets the modification time.
func (f *FS) Chtimes(name string, mtime time.Time) error {
	return f.change("chtimes", name, func(n *node) { n.mtime = mtime })
}

func (f *FS) change(op, name string, set func(*node)) error {
	p, err := f.existing(name, true)
	if err == nil && p.ro {
		err = EROFS
	}
	if err != nil {
		return pathError(op, name, err)
	}
	p.vol.tree.mu.Lock()
	defer p.vol.tree.mu.Unlock()
	set(p.node)
	return nil
}
