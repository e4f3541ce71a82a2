package workload

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func openStore(t *testing.T, dir string) *fileStore {
	t.Helper()
	s, err := NewFileStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*fileStore)
}

func wantLoad(t *testing.T, s Store, key string, steps int64, found bool) {
	t.Helper()
	p, ok, err := s.Load(key)
	if err != nil || ok != found || p.Steps != steps {
		t.Errorf("Load(%q) = %v, %v, %v; want %d, %v", key, p, ok, err, steps, found)
	}
}

// Whatever is wrong with a file, it is said, and it is not taken for progress.
func TestDamagedCheckpoint(t *testing.T) {
	s := openStore(t, t.TempDir())
	if err := s.Save("k", Progress{Steps: 40}); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(s.path("k"))
	if err != nil {
		t.Fatal(err)
	}
	damaged := map[string]string{
		"empty":         "",
		"cut":           string(good[:len(good)/2]),
		"digit flipped": strings.Replace(string(good), "40", "90", 1),
		"other key":     strings.Replace(string(good), `"k"`, `"q"`, 1),
		"not JSON":      "\x00\x00\x00",
	}
	for name, text := range damaged {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(s.path("k"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			p, ok, err := s.Load("k")
			if err == nil || ok || p != (Progress{}) || !strings.Contains(err.Error(), "read checkpoint of k: corrupt") {
				t.Errorf("Load = %v, %v, %v", p, ok, err)
			}
		})
	}
	if err := s.Save("k", Progress{Steps: 41}); err != nil {
		t.Fatal(err)
	}
	wantLoad(t, s, "k", 41, true)
}

// A process killed in the middle of a write leaves a torn temporary file: the checkpoint
// before it counts, and the next start clears up.
func TestKilledInTheMiddleOfAWrite(t *testing.T) {
	dir := t.TempDir()
	if err := openStore(t, dir).Save("k", Progress{Steps: 40}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "123"+tempSuffix), []byte(`{"key":"k","ste`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, dir)
	wantLoad(t, s, "k", 40, true)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v: want the one checkpoint", entries, err)
	}
}

func TestStoreThatCannotBeOpened(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewFileStore(filepath.Join(file, "dir")); err == nil || !strings.Contains(err.Error(), "checkpoint store: ") {
		t.Errorf("error %v", err)
	}
}

// No key, however crafted, gets a file outside the directory, and no two share one.
func TestKeysStayInside(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "store")
	s := openStore(t, dir)
	keys := []string{"", ".", "..", "../x", "/etc/passwd", "a/b", "a\\b", "a\x00b", strings.Repeat("x", 5000), "ä", "A", "a"}
	for i, key := range keys {
		if err := s.Save(key, Progress{Steps: int64(i + 1)}); err != nil {
			t.Fatalf("Save(%q): %v", key, err)
		}
	}
	for i, key := range keys {
		wantLoad(t, s, key, int64(i+1), true)
	}
	outside, err := os.ReadDir(parent)
	if err != nil || len(outside) != 1 {
		t.Errorf("%v, %v: want nothing beside the store", outside, err)
	}
	inside, err := os.ReadDir(dir)
	if err != nil || len(inside) != len(keys) {
		t.Errorf("%d files for %d keys, %v", len(inside), len(keys), err)
	}
}

// Both stores behave as a map does, the file store also across reopening.
func TestStoresAreMaps(t *testing.T) {
	for kind, dir := range map[string]string{"memory": "", "file": t.TempDir()} {
		t.Run(kind, func(t *testing.T) {
			s, err := NewFileStore(dir)
			if err != nil {
				t.Fatal(err)
			}
			model := map[string]int64{}
			random := rand.New(rand.NewPCG(1, 2))
			for range 60 {
				key := []string{"a", "b/c", "../d"}[random.IntN(3)]
				if random.IntN(3) == 0 {
					delete(model, key)
					err = s.Delete(key)
				} else {
					model[key] = random.Int64()
					err = s.Save(key, Progress{Steps: model[key]})
				}
				if err != nil {
					t.Fatal(err)
				}
				if dir != "" && random.IntN(10) == 0 {
					s = openStore(t, dir)
				}
				for _, key := range []string{"a", "b/c", "../d"} {
					steps, found := model[key]
					wantLoad(t, s, key, steps, found)
				}
			}
		})
	}
}

// Writers of one key at once leave one of their values, whole.
func TestConcurrentSaves(t *testing.T) {
	s := openStore(t, t.TempDir())
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			if err := s.Save("k", Progress{Steps: int64(i)}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if p, ok, err := s.Load("k"); err != nil || !ok || p.Steps < 0 || p.Steps >= 20 {
		t.Errorf("Load = %v, %v, %v", p, ok, err)
	}
}

// A collective survives the end of our own process: a new Registry over the same directory
// resumes, and a damaged file means starting over, which the log says.
func TestResumeAfterARestartOfTheFleet(t *testing.T) {
	dir := t.TempDir()
	spec := Spec{Run: 2 * time.Minute, World: 2, Checkpoint: 20 * time.Second}
	life := func(t *testing.T, from string) {
		synctest.Test(t, func(t *testing.T) {
			store := openStore(t, dir)
			all := startAll(New(Options{Store: store}), spec, 0, 1)
			time.Sleep(25 * time.Second)
			if all[1].count(from) != 1 {
				t.Errorf("no %q in %q", from, all[1].log.text())
			}
			for _, p := range all {
				p.cancel(nil)
			}
			wantExits(t, 137, all...)
		})
	}
	life(t, "running to step 120")
	life(t, "resuming from step 20")
	life(t, "resuming from step 40")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v: want one file for a collective", files, err)
	}
	if err := os.Truncate(files[0], 7); err != nil {
		t.Fatal(err)
	}
	life(t, "checkpoint cannot be used, starting from step 0")
}
