package vfs

import (
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/fleet/shell/budget"
)

// nodeCost is what a file, directory or link counts towards its tree's limit on top of its
// content: the node, the longest name and its place in the directory. So a loop of touch ends
// as a loop of writes does.
const nodeCost = 768

// A tree is the storage behind a volume: nodes, and a limit on what they hold. One lock
// guards all of it, the offsets of open files included; it is never held while anything
// waits.
type tree struct {
	mu      sync.Mutex
	limit   int64 // bytes; 0: no limit
	dropped bool  // nothing is kept any more
	kept    *kept
}

// kept is what a tree holds, and whose budget it counts towards as well. It is apart from the
// tree so that it can be given back when the tree is collected.
type kept struct {
	store *budget.Store // nil: nobody else's
	used  int64
}

func newTree(limit int64, store *budget.Store) *tree {
	t := &tree{limit: limit, kept: &kept{store: store}}
	if store != nil {
		runtime.AddCleanup(t, (*kept).release, t.kept)
	}
	return t
}

// release gives everything back to the store.
func (k *kept) release() {
	k.store.Take(k.used, -k.used)
	k.used = 0
}

// A node is a file, directory, link or device. The tree's lock guards its fields,
// but for those that never change.
type node struct {
	typ    fs.FileMode // type bits; never changes
	target string      // of a link; never changes
	device Device      // never changes

	perm      fs.FileMode
	mtime     time.Time
	data      content
	generated bool
	owned     bool // counts towards the limit: it did not come from an image
	opens     int  // open files of it
	gone      bool // removed while open: it counts until it is closed
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

// own is what the node itself counts towards the limit. What is still as it was in the image
// costs nothing.
func (n *node) own() int64 {
	if !n.owned {
		return 0
	}
	return nodeCost + int64(n.data.size) + int64(len(n.target))
}

// cost is what the node and all below it count towards the limit.
func (n *node) cost() int64 {
	total := n.own()
	for _, k := range n.kids {
		if k != nil {
			total += k.cost()
		}
	}
	return total
}

// leave says what is freed when the node and all below it are removed: what is open stays
// until it is closed.
func (n *node) leave() int64 {
	freed := int64(0)
	if n.opens > 0 {
		n.gone = true
	} else {
		freed = n.own()
	}
	for _, k := range n.kids {
		if k != nil {
			freed += k.leave()
		}
	}
	return freed
}

// grow takes n bytes of the tree's space, or gives them back where n is negative.
func (t *tree) grow(n int64) error {
	switch {
	case t.dropped && n <= 0:
		return nil
	case t.dropped, n > 0 && t.limit > 0 && t.kept.used+n > t.limit, !t.kept.store.Take(t.kept.used, n):
		return ENOSPC
	}
	t.kept.used += n
	return nil
}

// opened and closed count the open files of a node.
func (t *tree) opened(k *node) { k.opens++ }

func (t *tree) closed(k *node) {
	if k.opens--; k.opens == 0 && k.gone {
		_ = t.grow(-k.own())
		k.gone, k.owned, k.data = false, false, content{}
	}
}

// own makes a node that came from the image count, before it is changed.
func (t *tree) own(k *node) error {
	if k.owned {
		return nil
	}
	if err := t.grow(nodeCost + int64(k.data.size) + int64(len(k.target))); err != nil {
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
		_ = t.grow(-k.leave())
	}
	dir.drop(name)
}

// resize sets the content of a file to n bytes, zero-filled.
func (t *tree) resize(k *node, n int) error {
	if err := t.own(k); err != nil {
		return err
	}
	if err := t.grow(int64(n - k.data.size)); err != nil {
		return err
	}
	k.data.resize(n)
	k.mtime, k.generated = time.Now(), false
	return nil
}

// write stores b in the file at offset off, as far as there is room.
func (t *tree) write(k *node, off int, b []byte) (int, error) {
	if err := t.own(k); err != nil {
		return 0, err
	}
	if end := off + len(b); end > k.data.size {
		if err := t.grow(int64(end - k.data.size)); err != nil {
			return 0, err
		}
	}
	k.data.writeAt(b, off)
	k.mtime, k.generated = time.Now(), false
	return len(b), nil
}
