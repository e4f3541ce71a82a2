package vfs

import (
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"
)

// nodeCost is what a file, directory or link counts towards its tree's limit on top of its
// content, so that a loop of touch ends as a loop of writes does.
const nodeCost = 256

// A tree is the storage behind a volume: nodes, and a limit on what they hold. One lock
// guards all of it, the offsets of open files included; it is never held while anything
// waits.
type tree struct {
	mu    sync.Mutex
	used  int64
	limit int64 // bytes; 0: no limit
}

// A node is a file, directory, link or device. The tree's lock guards its fields,
// but for those that never change.
type node struct {
	typ    fs.FileMode // type bits; never changes
	target string      // of a link; never changes
	device Device      // never changes

	perm      fs.FileMode
	mtime     time.Time
	data      []byte
	generated bool
	owned     bool // counts towards the limit: it did not come from an image
	// kids overlay image: a nil value hides the image's entry of that name.
	kids  map[string]*node
	image *Entry
}

func newDir(perm fs.FileMode) *node {
	return &node{typ: fs.ModeDir, perm: perm.Perm(), mtime: time.Now()}
}

func (n *node) isDir() bool { return n.typ.IsDir() }

// kid looks name up in a directory; nil if it is not there.
func (n *node) kid(name string) *node {
	if k, ok := n.kids[name]; ok {
		return k
	}
	if n.image == nil {
		return nil
	}
	e := n.image.find(name)
	if e == nil {
		return nil
	}
	k := e.node()
	n.put(name, k)
	return k
}

func (n *node) put(name string, k *node) {
	if n.kids == nil {
		n.kids = map[string]*node{}
	}
	n.kids[name] = k
}

// drop removes the entry called name; an image's entry is hidden instead.
func (n *node) drop(name string) {
	n.mtime = time.Now()
	if n.image != nil && n.image.find(name) != nil {
		n.put(name, nil)
		return
	}
	delete(n.kids, name)
}

// names lists a directory in order.
func (n *node) names() []string {
	set := make(map[string]bool, len(n.kids))
	if n.image != nil {
		for _, e := range n.image.Kids {
			set[e.Name] = true
		}
	}
	for name, k := range n.kids {
		if k == nil {
			delete(set, name)
			continue
		}
		set[name] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// cost is what the node and all below it count towards the limit. What is still as it was
// in the image costs nothing.
func (n *node) cost() int64 {
	total := int64(0)
	if n.owned {
		total = nodeCost + int64(len(n.data))
	}
	for _, k := range n.kids {
		if k != nil {
			total += k.cost()
		}
	}
	return total
}

// grow takes n bytes of the tree's space, or gives them back where n is negative.
func (t *tree) grow(n int64) error {
	if n > 0 && t.limit > 0 && t.used+n > t.limit {
		return ENOSPC
	}
	t.used += n
	return nil
}

// own makes a node that came from the image count, before it is changed.
func (t *tree) own(k *node) error {
	if k.owned {
		return nil
	}
	if err := t.grow(nodeCost + int64(len(k.data))); err != nil {
		return err
	}
	k.owned = true
	return nil
}

// add puts a new node into dir.
func (t *tree) add(dir *node, name string, k *node) error {
	if err := t.own(k); err != nil {
		return err
	}
	dir.put(name, k)
	dir.mtime = time.Now()
	return nil
}

// remove takes an entry out of dir and frees what it held.
func (t *tree) remove(dir *node, name string) {
	if k := dir.kid(name); k != nil {
		_ = t.grow(-k.cost())
	}
	dir.drop(name)
}

// resize sets the content of a file to n bytes, zero-filled.
func (t *tree) resize(k *node, n int) error {
	if err := t.own(k); err != nil {
		return err
	}
	if err := t.grow(int64(n - len(k.data))); err != nil {
		return err
	}
	if n <= len(k.data) {
		k.data = append([]byte(nil), k.data[:n]...)
	} else {
		k.data = append(k.data, make([]byte, n-len(k.data))...)
	}
	k.mtime, k.generated = time.Now(), false
	return nil
}

// write stores b in the file at offset off, as far as there is room.
func (t *tree) write(k *node, off int, b []byte) (int, error) {
	if err := t.own(k); err != nil {
		return 0, err
	}
	if end := off + len(b); end > len(k.data) {
		if err := t.grow(int64(end - len(k.data))); err != nil {
			return 0, err
		}
		if off > len(k.data) {
			k.data = append(k.data, make([]byte, off-len(k.data))...)
		}
		k.data = append(k.data[:off], b...)
	} else {
		copy(k.data[off:], b)
	}
	k.mtime, k.generated = time.Now(), false
	return len(b), nil
}
