package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/controlplane/home"
)

// used is a folder with the data of a stopped cluster called name, under root by that name.
func used(t *testing.T, root, name string) home.Dir {
	t.Helper()
	d := home.Dir{Path: filepath.Join(t.TempDir(), "used")}
	err := errors.Join(os.Mkdir(d.Path, 0o700), d.Save(home.Record{Format: home.Format, Kubernetes: "v1.37.1", Name: name, Fleet: "lab"}), d.Link(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A start that is refused leaves the name as free as it was, and the other cluster alone.
func TestARefusedFolderLeavesNoName(t *testing.T) {
	root := t.TempDir()
	t.Setenv("BERTH_HOME", root)
	d := used(t, root, "a")
	for _, hold := range []bool{false, true} { // stopped, and running
		if hold {
			lock, err := d.Lock()
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Unlock()
		}
		starts := [][]string{{"up"}, {"up", "--ephemeral"}}
		if hold { // a detached start of a folder that is free would start this test's own binary
			starts = append(starts, []string{"up", "--detach"})
		}
		for _, args := range starts {
			code, _, stderr := run(t, append(args, "--name", "b", "--data", d.Path)...)
			if code != exitFailed {
				t.Errorf("%v: code %d, stderr %q", args, code, stderr)
			}
			if _, err := os.Lstat(filepath.Join(root, "b")); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("%v left something under the name: %v", args, err)
			}
		}
	}
	code, stdout, stderr := run(t, "down", "--name", "b", "--purge")
	if code != exitOK || !strings.Contains(stdout, "nothing to remove") {
		t.Errorf("purge of the refused name: code %d, %q %q", code, stdout, stderr)
	}
	if _, err := d.Load(); err != nil {
		t.Errorf("the other cluster is gone: %v", err)
	}
	code, _, stderr = run(t, "up", "--name", "b", "--data", filepath.Join(t.TempDir(), "own"))
	if code != exitFailed || !strings.Contains(stderr, "the control plane was started") {
		t.Errorf("the name is not free: code %d, stderr %q", code, stderr)
	}
}

// A name that an older berth made lead to another cluster's folder is taken away without that cluster.
func TestAForeignNameIsPurgedAlone(t *testing.T) {
	root := t.TempDir()
	t.Setenv("BERTH_HOME", root)
	d := used(t, root, "a")
	lock, err := d.Lock() // it runs
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	if err := os.Symlink(d.Path, filepath.Join(root, "b")); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := run(t, "down", "--name", "b")
	if code != exitFailed || !strings.Contains(stderr, `"b" leads to the data of cluster "a"`) {
		t.Errorf("down: code %d, stderr %q", code, stderr)
	}
	code, stdout, _ := run(t, "down", "--name", "b", "--purge")
	if code != exitOK || !strings.Contains(stdout, `cluster "a", which stays`) {
		t.Errorf("down --purge: code %d, stdout %q", code, stdout)
	}
	if _, err := d.Load(); err != nil {
		t.Errorf("the other cluster is gone: %v", err)
	}
}

func TestPurgeTwice(t *testing.T) {
	root := t.TempDir()
	t.Setenv("BERTH_HOME", root)
	d := used(t, root, "a")
	for i := range 3 {
		code, stdout, stderr := run(t, "down", "--name", "a", "--purge")
		if code != exitOK || stderr != "" {
			t.Errorf("purge %d: code %d, %q %q", i+1, code, stdout, stderr)
		}
	}
	if _, err := os.Stat(d.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the data is still there: %v", err)
	}
}

func TestAnotherFleetIsAnnounced(t *testing.T) {
	root := t.TempDir()
	t.Setenv("BERTH_HOME", root)
	used(t, root, "a")
	const what = `Cluster "a" has fleet lab. Fleet layers replaces it`
	for args, want := range map[string]bool{"up layers": true, "up --fleet layers": true, "up lab": false, "up": false} {
		_, _, stderr := run(t, append(strings.Fields(args), "--name", "a")...)
		if strings.Contains(stderr, what) != want {
			t.Errorf("%s: stderr %q, want the announcement: %v", args, stderr, want)
		}
		if !strings.Contains(stderr, "the control plane was started") {
			t.Errorf("%s: stderr %q", args, stderr)
		}
		if err := (home.Named(root, "a")).Save(home.Record{Format: home.Format, Kubernetes: "v1.37.1", Name: "a", Fleet: "lab"}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnOpenFolderIsClosed(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	data := t.TempDir()
	if err := os.Chmod(data, 0o777); err != nil {
		t.Fatal(err)
	}
	_, _, stderr := run(t, "up", "--data", data)
	if info, err := os.Stat(data); err != nil || info.Mode().Perm() != 0o700 || !strings.Contains(stderr, "closed to other users") {
		t.Errorf("mode %v (%v), stderr %q", info.Mode(), err, stderr)
	}
}

func TestVersion(t *testing.T) {
	_, want, _ := run(t, "version")
	code, stdout, stderr := run(t, "--version")
	if code != exitOK || stdout != want || stderr != "" || want == "" {
		t.Errorf("code %d, %q %q, want %q", code, stdout, stderr, want)
	}
}

// Without the program that has them, asking for other projects' controllers says in one line how to build it, and starts nothing.
func TestWithNeedsTheProgram(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	for _, c := range []struct {
		with, want string
		code       int
	}{
		{"jobset", "error: --with needs the program berth-operators beside this one: build it with `make operators`\n", exitFailed},
		{"jobset,", "error: --with \"jobset,\": give names of controllers, such as jobset,lws\n", exitUsage},
		{"--kubeconfig=x", "error: --with \"--kubeconfig=x\": give names of controllers, such as jobset,lws\n", exitUsage},
	} {
		code, _, stderr := run(t, "up", "--with", c.with)
		if code != c.code || stderr != c.want {
			t.Errorf("--with %s: code %d, stderr %q", c.with, code, stderr)
		}
	}
	with := &upOptions{with: []string{"jobset", "lws"}}
	if args := strings.Join(with.childArgs(), " "); !strings.Contains(args, "--with jobset,lws") {
		t.Errorf("a detached start has %s", args)
	}
}
