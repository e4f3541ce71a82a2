// Package home is the data folder of one embedded cluster: where it is, which files lie in
// it, who holds it, and which version wrote it.
//
// It starts nothing and does not know Kubernetes. The control plane fills the folder; the
// command line finds clusters by name through it. A folder is held by at most one process
// at a time, through a lock that the kernel drops when that process dies, so that kill -9
// never leaves a cluster that cannot be started again.
package home

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"time"
	"unicode"
)

// Format is the version of the folder's own layout.
//
//	1  2026-11-15  first
const Format = 1

// Record is what the folder says about its cluster, kept in cluster.json. The first
// part is written once, the second at each start and cleared at a clean stop.
type Record struct {
	Format     int    `json:"format"`
	Kubernetes string `json:"kubernetes"` // version that wrote the data, "v1.37.1"
	Name       string `json:"name"`
	APIPort    int    `json:"apiPort"` // kept over restarts, so that kubeconfigs stay valid
	Ephemeral  bool   `json:"ephemeral,omitempty"`
	Nodes      int    `json:"nodes,omitempty"` // of the fleet when last seen: heartbeats are paced by it

	PID     int    `json:"pid,omitempty"`
	Started string `json:"started,omitempty"` // RFC 3339
	Ready   bool   `json:"ready,omitempty"`
	Fleet   string `json:"fleet,omitempty"` // the preset or file of the last start
}

// Dir is a data folder.
type Dir struct{ Path string }

var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`)

// CheckName says whether a cluster may be called so.
func CheckName(name string) error {
	if validName.MatchString(name) {
		return nil
	}
	return fmt.Errorf("cluster name %q: use at most 40 lower-case letters, digits and dashes, beginning and ending with a letter or digit", name)
}

// Root is where named clusters live: $BERTH_HOME, else the user's data folder.
func Root() (string, error) {
	if d := os.Getenv("BERTH_HOME"); d != "" {
		return filepath.Abs(d)
	}
	if d := os.Getenv("XDG_DATA_HOME"); d != "" {
		return filepath.Join(d, "berth"), nil
	}
	h, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find a place for clusters: %w; set BERTH_HOME", err)
	}
	return filepath.Join(h, ".local", "share", "berth"), nil
}

// Named is the folder of the cluster called name under root.
func Named(root, name string) Dir { return Dir{Path: filepath.Join(root, name)} }

// At is the folder path as the one of the cluster called name. It refuses a name that stands for another cluster, and
// writes nothing: Link does, once the folder is held and known to be of use.
func At(root, name, path string) (Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return Dir{}, err
	}
	link := filepath.Join(root, name)
	if abs == link {
		return Dir{Path: abs}, nil
	}
	if within(root, abs) {
		return Dir{}, fmt.Errorf("folder %s is for clusters that need no --data: leave --data out, or give a folder outside %s", abs, root)
	}
	if old, taken := standsFor(link); taken && old != abs {
		return Dir{}, fmt.Errorf("cluster %q already has its data in %s; use another --name or `berth down --name %s --purge` first", name, old, name)
	}
	return Dir{Path: abs}, nil
}

// within says whether path is root or lies directly in it, where folders are found by their cluster's name.
func within(root, path string) bool {
	same := func(a, b string) bool {
		x, errX := os.Stat(a)
		y, errY := os.Stat(b)
		return a == b || errX == nil && errY == nil && os.SameFile(x, y)
	}
	return same(root, path) || same(root, filepath.Dir(path))
}

// standsFor is the folder that a name under root leads to, and whether there is a cluster in it. A name that leads to
// none is free.
func standsFor(link string) (path string, taken bool) {
	path = link
	if to, err := os.Readlink(link); err == nil {
		path = to
	}
	_, err := os.Stat(Dir{Path: path}.Record())
	return path, err == nil
}

// Link makes name stand for the folder: a link under root, so that `status` and `down` find a cluster whose data lies
// elsewhere. It takes the place of what an earlier attempt left under that name.
func (d Dir) Link(root, name string) error {
	link := filepath.Join(root, name)
	if old, taken := standsFor(link); old == d.Path {
		return nil
	} else if taken {
		return fmt.Errorf("cluster %q already has its data in %s", name, old)
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return err
	}
	if err := Forget(root, name); err != nil {
		return err
	}
	return os.Symlink(d.Path, link)
}

// Forget frees a name that stands for no cluster: a link, or a folder in which nothing was ever started. It never
// follows a link.
func Forget(root, name string) error {
	link := filepath.Join(root, name)
	info, err := os.Lstat(link)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		for _, name := range leftovers {
			if err := os.Remove(filepath.Join(link, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return os.Remove(link)
}

// Linked says whether the folder is reached through a link, and so may be another cluster's own.
func (d Dir) Linked() bool {
	info, err := os.Lstat(d.Path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// List is every cluster under root, by name. A missing root is no clusters.
func List(root string) ([]Dir, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var dirs []Dir
	for _, e := range entries {
		d := Named(root, e.Name())
		if _, err := os.Stat(d.Record()); err == nil {
			dirs = append(dirs, d)
		}
	}
	sort.Slice(dirs, func(i, j int) bool { return dirs[i].Path < dirs[j].Path })
	return dirs, nil
}

// The files and folders inside.
func (d Dir) Record() string     { return filepath.Join(d.Path, "cluster.json") }
func (d Dir) Kubeconfig() string { return filepath.Join(d.Path, "kubeconfig") }
func (d Dir) Log() string        { return filepath.Join(d.Path, "berth.log") }
func (d Dir) Keys() string       { return filepath.Join(d.Path, "keys") }
func (d Dir) Etcd() string       { return filepath.Join(d.Path, "etcd") }
func (d Dir) Run() string        { return filepath.Join(d.Path, "run") } // made anew at each start
func (d Dir) Fleet() string      { return filepath.Join(d.Path, "fleet") }
func (d Dir) Decisions() string  { return filepath.Join(d.Path, "decisions") }
func (d Dir) Stderr() string     { return filepath.Join(d.Path, stderrFile) } // of a detached process: what a crash says
func (d Dir) lock() string       { return filepath.Join(d.Path, lockFile) }

const (
	lockFile   = "lock"
	stderrFile = "stderr.log"
)

// leftovers may be in a folder in which no cluster was ever started: who tries takes the lock first.
var leftovers = []string{lockFile, stderrFile, stderrFile + ".old"}

// owned is everything Purge may remove.
func (d Dir) owned() []string {
	return []string{d.Etcd(), d.Keys(), d.Run(), d.Fleet(), d.Decisions(), d.Kubeconfig(), d.Log(), d.Log() + ".old", d.Stderr(), d.Stderr() + ".old", d.Record(), d.lock()}
}

// Load reads the record; fs.ErrNotExist where the folder holds no cluster.
func (d Dir) Load() (Record, error) {
	b, err := os.ReadFile(d.Record())
	if err != nil {
		return Record{}, err
	}
	r, err := parse(b)
	if err != nil {
		return Record{}, fmt.Errorf("read %s: %w", d.Record(), err)
	}
	return r, nil
}

// parse reads a record and refuses one that no berth wrote: what it says is printed, listened on and sent signals.
// A record of another format is passed on, for Compatible to refuse by name.
func parse(b []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(b, &r); err != nil {
		return Record{}, err
	}
	if r.Format != Format {
		return Record{Format: r.Format, Kubernetes: printable(r.Kubernetes), Name: printable(r.Name)}, nil
	}
	if err := CheckName(r.Name); err != nil {
		return Record{}, err
	}
	switch {
	case r.APIPort < 0 || r.APIPort > 65535:
		return Record{}, fmt.Errorf("apiPort %d is no port", r.APIPort)
	case r.PID < 0:
		return Record{}, fmt.Errorf("pid %d is no process", r.PID)
	case r.Nodes < 0:
		return Record{}, fmt.Errorf("nodes %d", r.Nodes)
	}
	r.Kubernetes, r.Fleet = printable(r.Kubernetes), printable(r.Fleet)
	if _, err := time.Parse(time.RFC3339, r.Started); err != nil {
		r.Started = ""
	}
	return r, nil
}

// printable drops what would move a terminal's cursor.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
}

// Save writes the record so that a crash leaves the old one or the new one.
func (d Dir) Save(r Record) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(d.Record(), append(b, '\n'))
}

// Compatible says, in one line, why the data in r cannot be used by this binary.
func (d Dir) Compatible(r Record, kubernetes string) error {
	if r.Format != Format {
		return fmt.Errorf("data folder %s has format %d and this berth reads format %d: use the berth that wrote it, another --name, or `berth down --name %s --purge` to start anew", d.Path, r.Format, Format, r.Name)
	}
	if r.Kubernetes != kubernetes {
		return fmt.Errorf("data folder %s was written by Kubernetes %s and this berth runs %s: use the berth that wrote it, another --name, or `berth down --name %s --purge` to start anew", d.Path, r.Kubernetes, kubernetes, r.Name)
	}
	return nil
}

// Wipe removes the cluster's state and keeps the folder, for a cluster that starts anew.
func (d Dir) Wipe() error {
	return errors.Join(os.RemoveAll(d.Etcd()), os.RemoveAll(d.Fleet()), os.RemoveAll(d.Decisions()))
}

// Purge removes what a cluster left in the folder, then the folder if nothing else is in
// it. A folder that holds no cluster is left alone. link, where not empty, goes too.
func (d Dir) Purge(link string) error {
	if _, err := os.Stat(d.Record()); err != nil {
		return fmt.Errorf("%s holds no cluster: nothing is removed", d.Path)
	}
	for _, p := range d.owned() {
		if err := os.RemoveAll(p); err != nil {
			return err
		}
	}
	if left, err := os.ReadDir(d.Path); err == nil && len(left) == 0 {
		if err := os.Remove(d.Path); err != nil {
			return err
		}
	}
	if l := (Dir{Path: link}); link == "" || !l.Linked() {
		return nil
	}
	return os.Remove(link)
}

// WriteFile replaces path with data, mode 0600, durably: after a crash the file is the old
// one or the new one, never a part.
func WriteFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes the names in a folder durable.
func SyncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
