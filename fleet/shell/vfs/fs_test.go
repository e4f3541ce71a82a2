package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// testImage is a small image.
func testImage() *Entry {
	root := Dir("",
		Dir("bin", Entry{Name: "sh", Mode: 0o755}, Entry{Name: "ls", Mode: 0o755}),
		Dir("etc", Text("motd", "hello\n"), Entry{Name: "who", Mode: 0o444, Generated: true}),
		Dir("dev", Special("null", Null), Special("zero", Zero), Special("stdout", Stdout)),
		Link("sbin", "bin"), Link("loop", "loop"),
	)
	return &root
}

func newTestFS() *FS {
	return New(Options{Image: testImage(), Limit: 1 << 20, Generate: func(name string) []byte { return []byte("made " + name) }})
}

// errOf is the errno in an error of this package.
func errOf(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// TestErrors is about the world saying no.
func TestErrors(t *testing.T) {
	f := newTestFS()
	ro := NewVolume(0)
	if err := ro.WriteFile("x", []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Mount("/ro", ro, true); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 300)
	for _, tc := range []struct {
		name string
		do   func() error
		want error
	}{
		{"read nothing", func() error { _, err := f.ReadFile("/nope"); return err }, ENOENT},
		{"read below a file", func() error { _, err := f.ReadFile("/etc/motd/x"); return err }, ENOTDIR},
		{"a file is no directory", func() error { _, err := f.Stat("/etc/motd/"); return err }, ENOTDIR},
		{"read a directory", func() error { _, err := f.ReadFile("/etc"); return err }, EISDIR},
		{"read a loop", func() error { _, err := f.ReadFile("/loop"); return err }, ELOOP},
		{"long name", func() error { return f.WriteFile("/"+long, nil, 0) }, ENAMETOOLONG},
		{"long path", func() error { _, err := f.Stat(strings.Repeat("/x", 3000)); return err }, ENAMETOOLONG},
		{"empty path", func() error { _, err := f.Stat(""); return err }, ENOENT},
		{"write a directory", func() error { return f.WriteFile("/etc", nil, 0) }, EISDIR},
		{"make what exists", func() error { return f.Mkdir("/etc", 0) }, EEXIST},
		{"make in nothing", func() error { return f.Mkdir("/a/b", 0) }, ENOENT},
		{"make over a file", func() error { return f.MkdirAll("/etc/motd/x", 0) }, ENOTDIR},
		{"exclusive", func() error { _, err := f.OpenFile("/etc/motd", WriteOnly|Create|Exclusive, 0); return err }, EEXIST},
		{"remove what is in use", func() error { return f.RemoveAll("/ro") }, EBUSY},
		{"remove the root", func() error { return f.RemoveAll("/") }, EBUSY},
		{"remove a full directory", func() error { return f.Remove("/etc") }, ENOTEMPTY},
		{"remove nothing", func() error { return f.Remove("/nope") }, ENOENT},
		{"write read-only", func() error { return f.WriteFile("/ro/x", nil, 0) }, EROFS},
		{"make read-only", func() error { return f.Mkdir("/ro/y", 0) }, EROFS},
		{"remove read-only", func() error { return f.Remove("/ro/x") }, EROFS},
		{"change read-only", func() error { return f.Chmod("/ro/x", 0) }, EROFS},
		{"rename across", func() error { return f.Rename("/etc/motd", "/ro/m") }, EROFS},
		{"rename into itself", func() error { return f.Rename("/etc", "/etc/x") }, EINVAL},
		{"rename over a full directory", func() error { return f.Rename("/dev", "/etc") }, ENOTEMPTY},
		{"rename a file over a directory", func() error { return f.Rename("/etc/motd", "/dev") }, EISDIR},
		{"too large", func() error { return f.WriteFile("/big", make([]byte, 2<<20), 0) }, ENOSPC},
		{"readlink of a file", func() error { _, err := f.Readlink("/etc/motd"); return err }, EINVAL},
		{"mount on the root", func() error { return f.Mount("/", ro, false) }, EBUSY},
		{"write what was opened to read", func() error {
			h, err := f.Open("/etc/motd")
			if err != nil {
				return err
			}
			_, err = h.Write([]byte("x"))
			return err
		}, EBADF},
	} {
		if got := errOf(tc.do()); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
	if !errors.Is(ENOENT, fs.ErrNotExist) || !errors.Is(ENOTDIR, syscall.ENOTDIR) || errors.Is(ENOTDIR, fs.ErrNotExist) {
		t.Error("Errno does not match the errors of package fs")
	}
}

func TestImageIsCopiedOnWrite(t *testing.T) {
	image := testImage()
	a, b := New(Options{Image: image}), New(Options{Image: image})
	if err := a.WriteFile("/etc/motd", []byte("changed\n"), 0); err != nil {
		t.Fatal(err)
	}
	if err := a.Remove("/bin/ls"); err != nil {
		t.Fatal(err)
	}
	show := func(f *FS) []string {
		motd, err := f.ReadFile("/etc/motd")
		if err != nil {
			t.Fatal(err)
		}
		out := []string{string(motd)}
		list, err := f.ReadDir("/sbin")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			out = append(out, e.Name())
		}
		return out
	}
	if diff := cmp.Diff([][]string{{"changed\n", "sh"}, {"hello\n", "ls", "sh"}}, [][]string{show(a), show(b)}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSpecialFiles(t *testing.T) {
	f := newTestFS()
	if got, err := f.ReadFile("/etc/who"); string(got) != "made /etc/who" || err != nil {
		t.Errorf("generated: %q, %v", got, err)
	}
	if got, err := f.ReadFile("/dev/null"); len(got) != 0 || err != nil {
		t.Errorf("null: %q, %v", got, err)
	}
	if got, err := f.ReadFile("/dev/zero"); len(got) != deviceBytes || err != nil {
		t.Errorf("zero: %d bytes, %v", len(got), err)
	}
	h, err := f.OpenFile("/dev/stdout", WriteOnly, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := h.Descriptor(); n != 1 || !ok {
		t.Errorf("stdout is descriptor %d, %v", n, ok)
	}
	if err := f.WriteFile("/etc/who", []byte("me"), 0); err != nil {
		t.Fatal(err)
	}
	if got, _ := f.ReadFile("/etc/who"); string(got) != "me" {
		t.Errorf("a written file is still generated: %q", got)
	}
}

func TestOpenFileOutlivesItsName(t *testing.T) {
	f := newTestFS()
	h, err := f.OpenFile("/log", ReadWrite|Create|Append, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(h, "one\n")
	if err := f.Remove("/log"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(h); string(got) != "one\n" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if err := h.Close(); err != nil || h.Close() == nil {
		t.Errorf("first close %v, second must fail", err)
	}
}

func TestReplaceIsAtomic(t *testing.T) {
	v := NewVolume(0)
	set := func(n int) {
		files := map[string]Content{}
		for _, name := range []string{"a", "b", "c"} {
			files[name] = Content{Data: fmt.Append(nil, n)}
		}
		if err := v.Replace(files); err != nil {
			t.Error(err)
		}
	}
	set(0)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
				set(n)
			}
		}
	}()
	for range 1000 {
		if list, err := v.ReadDir("/"); err != nil || len(list) != 3 {
			t.Fatalf("%v, %v", list, err)
		}
	}
	close(stop)
	<-done
	if used, _ := v.Usage(); used != v.root.cost() {
		t.Errorf("used %d, holds %d", used, v.root.cost())
	}
}

func TestSub(t *testing.T) {
	v := NewVolume(0)
	if err := v.WriteFile("dir/file", []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	f := newTestFS()
	for at, name := range map[string]string{"/mnt/dir": "dir", "/etc/app.conf": "dir/file"} {
		sub, err := v.Sub(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Mount(at, sub, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.WriteFile("/etc/app.conf", []byte("changed"), 0); err != nil {
		t.Fatal(err)
	}
	if got, err := f.ReadFile("/mnt/dir/file"); string(got) != "changed" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := v.Sub("nope"); errOf(err) != ENOENT {
		t.Errorf("missing: %v", err)
	}
}

func TestDirFS(t *testing.T) {
	f := newTestFS()
	for _, name := range []string{"/www/index.html", "/www/sub/a.txt"} {
		if err := f.WriteFile(name, []byte(name), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := fstest.TestFS(DirFS(f, "/www"), "index.html", "sub/a.txt"); err != nil {
		t.Error(err)
	}
}

// TestAgainstModel compares a tree with a map of paths after random changes, and its books
// with what it holds.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := New(Options{Limit: 20000})
		files := map[string]string{} // path to content
		names := rapid.SampledFrom([]string{"/a", "/b", "/d/a", "/d/b", "/d/e/a"})
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			name := names.Draw(t, "name")
			switch rapid.SampledFrom([]string{"write", "append", "remove", "rename"}).Draw(t, "op") {
			case "write":
				data := strings.Repeat("x", rapid.IntRange(0, 3000).Draw(t, "size"))
				if err := f.WriteFile(name, []byte(data), 0); err == nil {
					files[name] = data
				} else if errOf(err) != ENOSPC {
					t.Fatalf("write: %v", err)
				} else if _, there := files[name]; there {
					files[name] = "" // it was truncated before it turned out to be too large
				} else if _, err := f.Stat(name); err == nil {
					files[name] = ""
				}
			case "append":
				h, err := f.OpenFile(name, WriteOnly|Append, 0)
				if _, there := files[name]; there != (err == nil) {
					t.Fatalf("open: %v", err)
				}
				if err != nil {
					continue
				}
				if _, err := h.Write([]byte("more")); err == nil {
					files[name] += "more"
				}
				h.Close()
			case "remove":
				err := f.Remove(name)
				if _, there := files[name]; there != (err == nil) {
					t.Fatalf("remove: %v", err)
				}
				delete(files, name)
			case "rename":
				to := names.Draw(t, "to")
				data, there := files[name]
				if err := f.Rename(name, to); err == nil && there {
					delete(files, name)
					files[to] = data
				}
			}
			if f.root.tree.kept.used != f.root.root.cost() || f.root.tree.kept.used > 20000 {
				t.Fatalf("used %d, holds %d", f.root.tree.kept.used, f.root.root.cost())
			}
		}
		got := map[string]string{}
		collect(f, "/", got)
		if diff := cmp.Diff(files, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func collect(f *FS, dir string, into map[string]string) {
	list, _ := f.ReadDir(dir)
	for _, e := range list {
		name := path.Join(dir, e.Name())
		if e.IsDir() {
			collect(f, name, into)
			continue
		}
		data, _ := f.ReadFile(name)
		into[name] = string(data)
	}
}

// FuzzWalk looks for paths that panic or that lead to different places each time.
func FuzzWalk(f *testing.F) {
	for _, seed := range []string{"/", "//etc/../etc/./motd", "/sbin/sh", "/loop", "..", "etc/motd/", "/dev/null/x"} {
		f.Add(seed, "/bin")
	}
	f.Fuzz(func(t *testing.T, name, target string) {
		fsys := newTestFS()
		_ = fsys.Symlink(target, "/link")
		info, err := fsys.Stat(name)
		again, err2 := fsys.Stat(name)
		if (err == nil) != (err2 == nil) || info.node != again.node {
			t.Errorf("%q: %v then %v", name, err, err2)
		}
		if real, rerr := fsys.RealPath(name); err == nil && (rerr != nil || !strings.HasPrefix(real, "/")) {
			t.Errorf("%q: %q, %v", name, real, rerr)
		}
		_, _ = fsys.ReadFile("/link/" + name)
		_ = fsys.WriteFile(name, []byte("x"), 0)
		_ = fsys.Rename(name, "/link/x")
		_ = fsys.RemoveAll(name)
		if fsys.root.tree.kept.used != fsys.root.root.cost() {
			t.Errorf("used %d, holds %d", fsys.root.tree.kept.used, fsys.root.root.cost())
		}
	})
}

// TestNames checks that a listing is sorted and has each name once.
func TestNames(t *testing.T) {
	f := newTestFS()
	for _, name := range []string{"/z", "/etc/motd", "/a"} {
		if err := f.WriteFile(name, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	list, err := f.ReadDir("/")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]fs.FileMode{}
	for _, e := range list {
		got[e.Name()] = e.Type()
	}
	want := map[string]fs.FileMode{
		"a": 0, "bin": fs.ModeDir, "dev": fs.ModeDir, "etc": fs.ModeDir, "loop": fs.ModeSymlink, "sbin": fs.ModeSymlink, "z": 0,
	}
	if diff := cmp.Diff(want, got); diff != "" || !slices.IsSortedFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) }) {
		t.Errorf("%v (-want +got):\n%s", slices.Sorted(maps.Keys(got)), diff)
	}
}
