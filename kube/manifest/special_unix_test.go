//go:build unix

package manifest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A folder that somebody else filled may have a pipe in it, or a link to a device: neither is waited for.
func TestFoldersWithoutEnd(t *testing.T) {
	for name, lay := range map[string]func(path string) error{
		"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a device": func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := lay(filepath.Join(dir, "x.yaml")); err != nil {
				t.Skip(err)
			}
			done := time.AfterFunc(10*time.Second, func() { panic("it waits for " + name) })
			defer done.Stop()
			_, err := Read([]string{dir}, nil)
			var wrong *Error
			if !errors.As(err, &wrong) || wrong.Text != "is no regular file" {
				t.Error(err)
			}
		})
	}
}

// Files are bounded together: a folder of a thousand of the largest would not fit into memory.
func TestFoldersOfLargeFiles(t *testing.T) {
	dir := t.TempDir()
	text := []byte("apiVersion: v1\nkind: Pod\n#" + strings.Repeat("x", mostBytes-100))
	for i := range mostTogether/mostBytes + 1 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Read([]string{dir}, nil); err == nil || !strings.HasSuffix(err.Error(), "more than 64 MiB in all: give a smaller folder, or single files") {
		t.Error(err)
	}
}
