package home

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRecordSurvivesAHalfWrittenSuccessor(t *testing.T) {
	d := Dir{Path: t.TempDir()}
	want := Record{Format: Format, Kubernetes: "v1.37.1", Name: "a", APIPort: 6443, PID: 7, Started: "2026-11-15T00:00:00Z", Fleet: "lab"}
	if err := d.Save(want); err != nil {
		t.Fatal(err)
	}
	// what a crash between write and rename leaves behind
	if err := os.WriteFile(filepath.Join(d.Path, ".cluster.json.123"), []byte(`{"for`), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if st, _ := os.Stat(d.Record()); st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", st.Mode())
	}
}

func TestOtherVersionsAreRefusedInOneLine(t *testing.T) {
	d := Dir{Path: "/data/x"}
	ours := Record{Format: Format, Kubernetes: "v1.37.1", Name: "x"}
	for _, c := range []struct {
		what string
		edit func(*Record)
		want string // part of the message; empty: accepted
	}{
		{"the same", func(*Record) {}, ""},
		{"a later layout", func(r *Record) { r.Format++ }, "has format 2 and this berth reads format 1"},
		{"an older Kubernetes", func(r *Record) { r.Kubernetes = "v1.36.3" }, "was written by Kubernetes v1.36.3 and this berth runs v1.37.1"},
	} {
		r := ours
		c.edit(&r)
		err := d.Compatible(r, "v1.37.1")
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.what, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with %q", c.what, err, c.want)
		}
	}
}

// The holder is another process: flock between two descriptors of one process would do for
// the refusal, but not for what happens when the holder is killed.
func TestFolderIsHeldByOneProcessUntilItDies(t *testing.T) {
	if dir := os.Getenv("BERTH_TEST_HOLD"); dir != "" {
		hold(dir)
	}
	d := Dir{Path: filepath.Join(t.TempDir(), "c")}
	holder := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	holder.Env = append(os.Environ(), "BERTH_TEST_HOLD="+d.Path)
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return d.Holder() == holder.Process.Pid })
	if _, err := d.Lock(); !errors.Is(err, ErrInUse) || strings.Contains(err.Error(), "\n") {
		t.Errorf("second lock: got %v, want ErrInUse in one line", err)
	}
	holder.Process.Kill()
	holder.Wait()
	if pid := d.Holder(); pid != 0 {
		t.Errorf("after kill -9 the folder is still held by %d", pid)
	}
	l, err := d.Lock()
	if err != nil {
		t.Fatalf("lock after the holder was killed: %v", err)
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}

func hold(dir string) {
	if _, err := (Dir{Path: dir}).Lock(); err != nil {
		os.Exit(1)
	}
	time.Sleep(time.Minute) // until killed
	os.Exit(0)
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("did not happen within 10 s")
		}
	}
}

func TestNamedFolderElsewhere(t *testing.T) {
	root, data := filepath.Join(t.TempDir(), "root"), t.TempDir()
	d, err := At(root, "far", data)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(root, "far")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the name is taken before there is a cluster: %v", err)
	}
	if err := errors.Join(d.Save(Record{Format: Format, Name: "far"}), d.Link(root, "far")); err != nil {
		t.Fatal(err)
	}
	dirs, err := List(root)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Dir{{Path: filepath.Join(root, "far")}}, dirs); diff != "" {
		t.Error(diff)
	}
	if _, err := At(root, "far", data); err != nil {
		t.Errorf("the same folder again: %v", err)
	}
	if _, err := At(root, "far", t.TempDir()); err == nil {
		t.Error("another folder under the same name was accepted")
	}
	for _, path := range []string{root, filepath.Join(root, "near")} {
		if _, err := At(root, "other", path); err == nil {
			t.Errorf("%s, where clusters are found by name, was accepted", path)
		}
	}
}

// What an attempt that came to nothing left under a name does not keep the name from being used.
func TestANameWithoutAClusterIsFree(t *testing.T) {
	for what, leave := range map[string]func(link string) error{
		"a link to nothing":             func(link string) error { return os.Symlink(filepath.Join(t.TempDir(), "gone"), link) },
		"a link to an empty folder":     func(link string) error { return os.Symlink(t.TempDir(), link) },
		"a folder that was locked once": func(link string) error { return touch(filepath.Join(link, lockFile), filepath.Join(link, stderrFile)) },
	} {
		t.Run(what, func(t *testing.T) {
			root, data := t.TempDir(), t.TempDir()
			if err := leave(filepath.Join(root, "x")); err != nil {
				t.Fatal(err)
			}
			d, err := At(root, "x", data)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Link(root, "x"); err != nil {
				t.Fatal(err)
			}
			if to, err := os.Readlink(filepath.Join(root, "x")); err != nil || to != data {
				t.Errorf("the name leads to %s (%v), want %s", to, err, data)
			}
			if err := Forget(root, "x"); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(data); err != nil {
				t.Errorf("to forget the name removed the folder: %v", err)
			}
		})
	}
}

func TestAFolderWithFilesIsNotForgotten(t *testing.T) {
	root := t.TempDir()
	mine := filepath.Join(root, "x", "thesis.tex")
	if err := touch(mine); err != nil {
		t.Fatal(err)
	}
	if err := Forget(root, "x"); err == nil {
		t.Error("a folder with somebody's files was forgotten")
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
}

func touch(paths ...string) (err error) {
	for _, p := range paths {
		err = errors.Join(err, os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, nil, 0o600))
	}
	return err
}

func TestPurgeLeavesWhatIsNotOurs(t *testing.T) {
	root, data := filepath.Join(t.TempDir(), "root"), t.TempDir()
	mine := filepath.Join(data, "thesis.tex")
	if err := os.WriteFile(mine, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := At(root, "c", data)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Purge(""); err == nil {
		t.Error("purged a folder that holds no cluster")
	}
	if err := errors.Join(d.Save(Record{}), d.Link(root, "c"), os.MkdirAll(filepath.Join(d.Etcd(), "member"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := d.Purge(filepath.Join(root, "c")); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(data)
	if err != nil || len(left) != 1 || left[0].Name() != "thesis.tex" {
		t.Errorf("left %v (%v), want thesis.tex alone", left, err)
	}
	if _, err := os.Lstat(filepath.Join(root, "c")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the link is still there: %v", err)
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "lab-2": true, "": false, "-a": false, "a-": false, "A": false, "../x": false, "a/b": false, ".": false,
		strings.Repeat("a", 40): true, strings.Repeat("a", 41): false,
	} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v, want ok=%v", name, err, ok)
		}
	}
}
