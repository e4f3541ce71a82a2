package shell

import (
	"archive/tar"
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Names that would lead out of the directory are made to stay in it.
func TestTarStaysInItsDirectory(t *testing.T) {
	var archive bytes.Buffer
	out := tar.NewWriter(&archive)
	for _, name := range []string{"../../out", "/abs", "in/../../up"} {
		if err := out.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	c := newContainer()
	got := runIn(t, c, archive.String(), "sh", "-c", "mkdir /tmp/d; tar xf - -C /tmp/d; ls /tmp/d; ls -d /out /abs /tmp/up 2>/dev/null")
	if diff := cmp.Diff(result{Stdout: "abs\nout\nup\n", Status: 1}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
