package inspect

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// bundleOf is a bundle, with a right manifest, of any files.
func bundleOf(t *testing.T, names []string, files map[string][]byte) []byte {
	t.Helper()
	m := Manifest{Format: Format, Captured: taken, Counts: map[string]int{}}
	for _, name := range names {
		m.Files = append(m.Files, fileOf(name, files[name]))
	}
	files[manifestName] = m.encode()
	files[hashName] = []byte(sum(m.encode()) + "  " + manifestName + "\n")
	return packed(t, append([]string{manifestName, hashName}, names...), files)
}

// A small file that would take a machine's memory once it is read is refused in one line, and before it has.
func TestReadingHasABudget(t *testing.T) {
	if testing.Short() {
		t.Skip("writes and reads hundreds of megabytes")
	}
	repeat := func(s string, n int) []byte { return []byte(strings.Repeat(s, n)) }
	many := map[string][]byte{}
	var names []string
	for i := range maxFiles + 1 {
		name := fmt.Sprintf("logs/a/b/c%d.log", i)
		names, many[name] = append(names, name), nil
	}
	pods := "objects/pods.jsonl"
	for name, c := range map[string]struct {
		files map[string][]byte
		want  string
	}{
		"empty objects":      {map[string][]byte{pods: repeat("{}\n", 1<<20)}, "more than the 500000 objects"},
		"empty containers":   {map[string][]byte{pods: repeat(`{"spec":{"containers":[`+string(repeat("{},", 500_000))+`{}]}}`+"\n", 6)}, "MiB of memory"},
		"empty lists":        {map[string][]byte{"objects/rayclusters.ray.io.jsonl": repeat(`{"apiVersion":"ray.io/v1","kind":"RayCluster","a":[`+string(repeat("[],", 2_000_000))+`[]]}`+"\n", 11)}, "MiB of memory"},
		"one long object":    {map[string][]byte{pods: repeat("x", maxLine+1)}, "more than the"},
		"deep object":        {map[string][]byte{pods: append(append([]byte(`{"spec":`), repeat("[", 5000)...), repeat("]", 5000)...)}, "nested more than 100"},
		"deep answer":        {map[string][]byte{"answers/queues.json": append(repeat("[", 5000), repeat("]", 5000)...)}, "nested more than 100"},
		"zeros beyond ratio": {map[string][]byte{"logs/a/b/c.log": make([]byte, 200<<20)}, "more than any bundle"},
		"too many files":     {many, "more than the 20000"},
	} {
		t.Run(name, func(t *testing.T) {
			order := names
			if len(c.files) == 1 {
				order = nil
				for n := range c.files {
					order = append(order, n)
				}
			}
			data := bundleOf(t, order, c.files)
			c.files = nil
			defer debug.SetGCPercent(debug.SetGCPercent(100)) // whatever GOGC the tests run with
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			_, err := read(data)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, c.want)
			}
			if took := int64(after.HeapSys) - int64(before.HeapSys); took > 3<<30 {
				t.Errorf("%d bytes took %d MiB to read", len(data), took>>20)
			}
		})
	}
	if memory, err := weigh([]byte(`{"a":"{[\\\"{{{","b":[{},{}]}`)); err != nil || memory > 8<<10 {
		t.Errorf("%d, %v", memory, err)
	}
}
