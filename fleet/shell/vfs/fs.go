// Package vfs is the file system of a simulated container: directories, files, links and a
// few devices, in memory and bounded, with volumes mounted into it.
//
// It never touches a host file: it imports nothing that could. It knows no users or
// permissions (everybody is root; only the executable bits mean something) and no hard links.
// Package shell calls it, and through shell whoever runs containers.
package vfs

import (
	"errors"
	"io/fs"
	"strings"
	"sync"

	"github.com/berth-dev/berth/fleet/shell/budget"
)

// Limits of paths, as on Linux.
const (
	maxPath  = 4096
	maxName  = 255
	maxLinks = 40
	maxSteps = 2100 // elements of a path with those of the links in it: what one look-up costs at most
)

// FS is a container's file system: a root volume and the volumes mounted in it. Paths given
// to its methods are slash-separated and taken from the root. Errors are *fs.PathError
// around an Errno. Safe for concurrent use.
type FS struct {
	root     *Volume
	generate func(path string) []byte

	mu     sync.RWMutex
	mounts []MountPoint // sorted by path
}

// Options say what a new FS starts from.
type Options struct {
	// Image is what it shows before anything is written; nil means an empty root.
	Image *Entry
	// Limit is how many bytes may be written; 0 means no limit.
	Limit int64
	// Store is a budget that the root shares with others; nil: none.
	Store *budget.Store
	// Generate makes the content of the image's Generated files from their path.
	Generate func(path string) []byte
}

// New makes a file system. It costs a few hundred bytes, whatever the size of the image.
func New(o Options) *FS {
	root := newDir(0o755)
	if o.Image != nil {
		root = o.Image.node()
	}
	return &FS{root: &Volume{tree: newTree(o.Limit, o.Store), root: root}, generate: o.Generate}
}

// Generate sets what makes the content of generated files, before the FS is shared.
func (f *FS) Generate(g func(path string) []byte) { f.generate = g }

// Discard empties the root volume and gives back what it held. Nothing can be written to it any more.
func (f *FS) Discard() { f.root.Discard() }

// Usage is how many bytes the root volume holds and may hold (0: no limit).
func (f *FS) Usage() (used, limit int64) { return f.root.Usage() }

// A place is where a walk ended.
type place struct {
	vol    *Volume
	dir    *node // the directory that has or would have it; nil for roots
	name   string
	node   *node // nil: does not exist, but could be made in dir
	path   string
	ro     bool
	rooted bool // the root or a mount point
}

// walk follows name from the root. With follow, a link at the end is followed too.
func (f *FS) walk(name string, follow bool) (place, error) {
	if name == "" {
		return place{}, ENOENT
	}
	root := place{vol: f.root, node: f.root.root, path: "/", rooted: true}
	stack := []place{root}
	if len(name) > maxPath {
		return place{}, ENAMETOOLONG
	}
	todo := split(name)
	links, steps := 0, 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		if steps++; steps > maxSteps {
			return place{}, ELOOP
		}
		top := stack[len(stack)-1]
		next, err := f.step(top, part)
		switch {
		case err != nil:
			return place{}, err
		case part == "..":
			if len(stack) > 1 {
				stack = stack[:len(stack)-1]
			}
			continue
		case part == ".":
			continue
		case next.node == nil && len(todo) > 0:
			return place{}, ENOENT
		}
		target, isLink := next.link()
		if !isLink || (len(todo) == 0 && !follow) {
			stack = append(stack, next)
			continue
		}
		if links++; links > maxLinks {
			return place{}, ELOOP
		}
		if strings.HasPrefix(target, "/") {
			stack = stack[:1]
		}
		todo = append(split(target), todo...)
	}
	return stack[len(stack)-1], nil
}

// split cuts a path into its elements. A trailing slash leaves a "." so that only a
// directory matches.
func split(name string) []string {
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '/' })
	if len(parts) > 0 && strings.HasSuffix(name, "/") {
		parts = append(parts, ".")
	}
	return parts
}

// step looks one element up in the directory at p.
func (f *FS) step(p place, part string) (place, error) {
	if p.node == nil {
		return place{}, ENOENT
	}
	if !p.node.isDir() {
		return place{}, ENOTDIR
	}
	if len(part) > maxName {
		return place{}, ENAMETOOLONG
	}
	if part == "." || part == ".." {
		return place{}, nil
	}
	full := strings.TrimSuffix(p.path, "/") + "/" + part
	if m, ok := f.mountAt(full); ok {
		return place{vol: m.Volume, name: part, node: m.Volume.root, path: full, ro: m.ReadOnly, rooted: true}, nil
	}
	p.vol.tree.mu.Lock()
	defer p.vol.tree.mu.Unlock()
	return place{vol: p.vol, dir: p.node, name: part, node: p.node.kid(part), path: full, ro: p.ro}, nil
}

// link is the target of the link at p, if it is one.
func (p place) link() (string, bool) {
	if p.node == nil || p.node.typ&fs.ModeSymlink == 0 {
		return "", false
	}
	return p.node.target, true
}

// existing walks to something that is there.
func (f *FS) existing(name string, follow bool) (place, error) {
	p, err := f.walk(name, follow)
	if err == nil && p.node == nil {
		err = ENOENT
	}
	return p, err
}

// writable walks to an entry that is to be made, changed or removed.
func (f *FS) writable(name string, follow bool) (place, error) {
	p, err := f.walk(name, follow)
	if err == nil && p.ro {
		err = EROFS
	}
	return p, err
}

// pathError gives err the shape that callers of package fs expect.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
