package vfs

import (
	"io/fs"
	"slices"
	"strings"
	"time"
)

// Entry is one file of an image: the read-only tree that a fresh FS shows before anything
// is written to it. Images are shared by every FS made from them and never modified; an FS
// copies an entry into its own tree when a path through it is first walked.
type Entry struct {
	Name string
	Mode fs.FileMode // type and permission bits
	// Data is the content of a regular file or the target of a symbolic link.
	Data string
	// Device says what reads and writes of a device do.
	Device Device
	// Generated files get their content from FS.Generate each time they are opened.
	Generated bool
	// Kids are a directory's entries, sorted by name.
	Kids []Entry
}

// Device is the behaviour of a character device.
type Device uint8

// The devices of a container. The descriptor devices (Stdin and later) are opened like any
// file, but have no content: see File.Descriptor.
const (
	NoDevice Device = iota
	Null
	Zero
	Full
	Random
	Stdin
	Stdout
	Stderr
	TTY
)

// Dir makes a directory entry and sorts its kids.
func Dir(name string, kids ...Entry) Entry {
	slices.SortFunc(kids, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return Entry{Name: name, Mode: fs.ModeDir | 0o755, Kids: kids}
}

// Text makes an entry for a regular file.
func Text(name, content string) Entry { return Entry{Name: name, Mode: 0o644, Data: content} }

// Link makes an entry for a symbolic link.
func Link(name, target string) Entry {
	return Entry{Name: name, Mode: fs.ModeSymlink | 0o777, Data: target}
}

// Special makes a device entry.
func Special(name string, d Device) Entry {
	return Entry{Name: name, Mode: fs.ModeDevice | fs.ModeCharDevice | 0o666, Device: d}
}

// find returns the kid called name, or nil.
func (e *Entry) find(name string) *Entry {
	i, ok := slices.BinarySearchFunc(e.Kids, name, func(k Entry, name string) int {
		return strings.Compare(k.Name, name)
	})
	if !ok {
		return nil
	}
	return &e.Kids[i]
}

// imageTime is the modification time of everything that comes from an image.
var imageTime = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// node copies the entry into a tree. Directories stay folded: their kids are looked up in
// the image until they are needed.
func (e *Entry) node() *node {
	n := &node{typ: e.Mode.Type(), perm: e.Mode.Perm(), mtime: imageTime, device: e.Device, generated: e.Generated}
	switch {
	case n.isDir():
		n.image = e
	case n.typ&fs.ModeSymlink != 0:
		n.target = e.Data
	default:
		n.data.writeAt([]byte(e.Data), 0)
	}
	return n
}
