package vfs

import (
	"io"
	"io/fs"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// deviceBytes is how much may be read from one open endless device before it ends: enough
// for any script, little enough that reading all of it is no harm.
const deviceBytes = 64 << 20

// Flag says how a file is opened.
type Flag int

// ReadOnly, WriteOnly or ReadWrite, with any of the others added.
const (
	ReadOnly  Flag = 0
	WriteOnly Flag = 1 << iota
	ReadWrite
	Create
	Exclusive // with Create: the file must not exist
	Truncate
	Append
)

func (f Flag) writes() bool { return f&(WriteOnly|ReadWrite) != 0 }

// File is an open file. Its offset is shared by all who hold it, as a duplicated descriptor
// shares it. Safe for concurrent use.
type File struct {
	fs     *FS
	vol    *Volume
	node   *node
	path   string
	flag   Flag
	off    int    // guarded by the tree's lock
	made   []byte // content of a generated file at the time it was opened
	closed atomic.Bool
}

// Open opens a file for reading.
func (f *FS) Open(name string) (*File, error) { return f.OpenFile(name, ReadOnly, 0) }

// OpenFile opens a file. Directories can be opened for reading, to be listed.
func (f *FS) OpenFile(name string, flag Flag, perm fs.FileMode) (*File, error) {
	p, err := f.walk(name, flag&Exclusive == 0)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	h, err := f.open(p, flag, perm)
	return h, pathError("open", name, err)
}

func (f *FS) open(p place, flag Flag, perm fs.FileMode) (*File, error) {
	t := p.vol.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.dir != nil { // it may have come or gone since the walk
		p.node = p.dir.kid(p.name)
	}
	if err := openable(p, flag); err != nil {
		return nil, err
	}
	if p.node == nil {
		p.node = &node{perm: perm.Perm(), mtime: time.Now()}
		if err := t.add(p.dir, p.name, p.node); err != nil {
			return nil, err
		}
	}
	h := &File{fs: f, vol: p.vol, node: p.node, path: p.path, flag: flag}
	if flag&Truncate != 0 && flag.writes() && p.node.typ.IsRegular() {
		if err := t.resize(p.node, 0); err != nil {
			return nil, err
		}
	}
	t.opened(p.node)
	if p.node.generated && f.generate != nil {
		h.made = f.generate(p.path)
	}
	return h, nil
}

// openable says why what is at p may not be opened with flag.
func openable(p place, flag Flag) error {
	isDevice := p.node != nil && p.node.device != NoDevice
	switch {
	case p.node == nil && flag&Create == 0:
		return ENOENT
	case p.node == nil && p.dir == nil:
		return ENOENT
	case p.node != nil && flag&Create != 0 && flag&Exclusive != 0:
		return EEXIST
	case flag.writes() && p.ro && !isDevice:
		return EROFS
	case flag.writes() && p.node != nil && p.node.isDir():
		return EISDIR
	case p.node != nil && p.node.typ&fs.ModeSymlink != 0:
		return ELOOP
	}
	return nil
}

// Descriptor is the number of the caller's own open file that this device stands for
// (/dev/stdin and so on). The caller uses that one instead of h.
func (h *File) Descriptor() (int, bool) {
	switch h.node.device {
	case Stdin, TTY:
		return 0, true
	case Stdout:
		return 1, true
	case Stderr:
		return 2, true
	}
	return 0, false
}

// Path is the name of the file with all links resolved, as it was when it was opened.
func (h *File) Path() string { return h.path }

// Stat describes the file.
func (h *File) Stat() (fs.FileInfo, error) {
	h.vol.tree.mu.Lock()
	defer h.vol.tree.mu.Unlock()
	i := h.fs.info(h.node, h.path)
	if h.made != nil {
		i.size = int64(len(h.made))
	}
	return i, nil
}

// Close ends the use of the file; a second Close is an error.
func (h *File) Close() error {
	if h.closed.Swap(true) {
		return h.fail("close", EBADF)
	}
	h.vol.tree.mu.Lock()
	defer h.vol.tree.mu.Unlock()
	h.vol.tree.closed(h.node)
	return nil
}

func (h *File) fail(op string, err error) error { return pathError(op, h.path, err) }

func (h *File) Read(b []byte) (int, error) {
	switch {
	case h.closed.Load() || h.flag&WriteOnly != 0:
		return 0, h.fail("read", EBADF)
	case h.node.isDir():
		return 0, h.fail("read", EISDIR)
	}
	h.vol.tree.mu.Lock()
	defer h.vol.tree.mu.Unlock()
	n, err := h.readAt(b)
	h.off += n
	return n, err
}

// readAt is called with the tree's lock held.
func (h *File) readAt(b []byte) (int, error) {
	n := 0
	switch {
	case h.node.device == Zero || h.node.device == Full || h.node.device == Random:
		return readDevice(h.node.device, b, deviceBytes-h.off)
	case h.node.device == NoDevice && h.made != nil:
		n = copy(b, h.made[min(h.off, len(h.made)):])
	default:
		n = h.node.data.readAt(b, h.off)
	}
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func readDevice(d Device, b []byte, left int) (int, error) {
	if left <= 0 {
		return 0, io.EOF
	}
	b = b[:min(len(b), left)]
	clear(b)
	for i := range b {
		if d == Random {
			b[i] = byte(rand.Uint32())
		}
	}
	return len(b), nil
}

func (h *File) Write(b []byte) (int, error) {
	switch {
	case h.closed.Load() || !h.flag.writes():
		return 0, h.fail("write", EBADF)
	case h.node.device == Full:
		return 0, h.fail("write", ENOSPC)
	case h.node.device != NoDevice:
		return len(b), nil
	}
	h.vol.tree.mu.Lock()
	defer h.vol.tree.mu.Unlock()
	if h.flag&Append != 0 {
		h.off = h.node.data.size
	}
	n, err := h.vol.tree.write(h.node, h.off, b)
	h.off += n
	if err != nil {
		return n, h.fail("write", err)
	}
	return n, nil
}

// Seek moves the offset, as io.Seeker says.
func (h *File) Seek(offset int64, whence int) (int64, error) {
	h.vol.tree.mu.Lock()
	defer h.vol.tree.mu.Unlock()
	base := 0
	switch whence {
	case io.SeekCurrent:
		base = h.off
	case io.SeekEnd:
		base = max(h.node.data.size, len(h.made))
	}
	at := int64(base) + offset
	if at < 0 || at > deviceBytes {
		return 0, h.fail("seek", EINVAL)
	}
	h.off = int(at)
	return at, nil
}
