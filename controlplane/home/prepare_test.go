package home

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPrepare(t *testing.T) {
	for _, c := range []struct {
		what   string
		mode   fs.FileMode // 0: there is no folder
		files  []string
		closed bool
		want   string // part of the refusal; "": taken
	}{
		{"no folder", 0, nil, false, ""},
		{"a private one", 0o700, nil, false, ""},
		{"an empty one for everybody to read", 0o755, nil, true, ""},
		{"an empty one for everybody to write", 0o777, nil, true, ""},
		{"an empty one of a group", 0o770, nil, true, ""},
		{"one with a cluster for everybody to read", 0o755, []string{"cluster.json", "lock", "etcd"}, true, ""},
		{"one with a cluster for everybody to write", 0o777, []string{"cluster.json"}, false, "other users may have put files there"},
		{"one with a planted lock", 0o777, []string{"lock"}, false, "other users may have put files there"},
		{"a home", 0o755, []string{"thesis.tex"}, false, "is not empty and holds no cluster (it has thesis.tex)"},
		{"an attempt that came to nothing", 0o700, []string{"lock", "stderr.log"}, false, ""},
		{"a folder for temporary files", 0o777 | fs.ModeSticky, nil, false, "is shared by several users"},
	} {
		t.Run(c.what, func(t *testing.T) {
			d := Dir{Path: filepath.Join(t.TempDir(), "d")}
			if c.mode != 0 {
				var err error
				for _, f := range c.files {
					err = errors.Join(err, touch(filepath.Join(d.Path, f)))
				}
				if err := errors.Join(err, os.MkdirAll(d.Path, 0o700), os.Chmod(d.Path, c.mode)); err != nil {
					t.Fatal(err)
				}
			}
			closed, err := d.Prepare()
			info, statErr := os.Stat(d.Path)
			if statErr != nil {
				t.Fatal(statErr)
			}
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("got %v, want one line with %q", err, c.want)
				}
				if info.Mode().Perm() != c.mode.Perm() {
					t.Errorf("a folder that was refused has mode %v now, and had %v", info.Mode(), c.mode)
				}
				return
			}
			if err != nil || closed != c.closed {
				t.Errorf("closed %v (%v), want %v", closed, err, c.closed)
			}
			if info.Mode().Perm() != 0o700 {
				t.Errorf("mode %v, want 0700", info.Mode())
			}
		})
	}
}

func TestAFolderOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	d := Dir{Path: t.TempDir()}
	if err := os.Chown(d.Path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Prepare(); err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
		t.Errorf("got %v", err)
	}
}

// A lock that somebody planted as a link does not make us write elsewhere.
func TestALockIsNeverALink(t *testing.T) {
	d, other := Dir{Path: t.TempDir()}, filepath.Join(t.TempDir(), "precious")
	if err := errors.Join(os.WriteFile(other, []byte("x"), 0o600), os.Symlink(other, d.lock())); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock(); err == nil {
		t.Error("locked through a link")
	}
	if b, err := os.ReadFile(other); err != nil || string(b) != "x" {
		t.Errorf("wrote %q elsewhere (%v)", b, err)
	}
}
