package vfs

import (
	"io"
	"io/fs"
	"path"
)

// DirFS is the tree below dir as an fs.FS. Links may lead out of dir, but not out of f.
func DirFS(f *FS, dir string) fs.FS { return dirFS{f, dir} }

type dirFS struct {
	fs  *FS
	dir string
}

func (d dirFS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f, err := d.fs.Open(path.Join(d.dir, name))
	if err != nil {
		return nil, pathError("open", name, err)
	}
	info, err := f.Stat()
	if err != nil || !info.IsDir() {
		return f, err
	}
	list, err := d.fs.ReadDir(path.Join(d.dir, name))
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &openDir{File: f, left: list}, nil
}

// openDir is a directory that is being listed.
type openDir struct {
	*File
	left []fs.DirEntry
}

func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		list := d.left
		d.left = nil
		return list, nil
	}
	if len(d.left) == 0 {
		return nil, io.EOF
	}
	list := d.left[:min(n, len(d.left))]
	d.left = d.left[len(list):]
	return list, nil
}
