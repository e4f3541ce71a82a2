package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A backup takes the place of an earlier one at once, so that nothing that stops it leaves a part of either, and only its
// owner can read it, whoever could read the earlier one.
func TestABackupReplacesTheFileWhole(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "backup.yaml"), filepath.Join(dir, "latest.yaml")
	if err := os.WriteFile(file, []byte("earlier"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	open, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	kubeconfig := apiServer(t, map[string]any{"/apis/berth.dev/v1alpha1/berthqueues": map[string]any{"kind": "BerthQueueList", "apiVersion": "berth.dev/v1alpha1", "items": []any{}}})
	if code, stdout, stderr := run(t, "backup", "--kubeconfig", kubeconfig, "-o", link); code != exitOK || !strings.HasPrefix(stdout, "0 objects in ") {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	if was, err := io.ReadAll(open); err != nil || string(was) != "earlier" {
		t.Errorf("the earlier backup was written over: %q, %v", was, err)
	}
	info, err := os.Lstat(file)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info.Mode(), err)
	}
	if text, err := os.ReadFile(link); err != nil || !strings.Contains(string(text), "kind: List") {
		t.Errorf("%q, %v", text, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%q are left, %v", left, err)
	}
	for _, bad := range []string{dir, filepath.Join(dir, "no", "such")} {
		if code, _, stderr := run(t, "backup", "--kubeconfig", kubeconfig, "-o", bad); code == exitOK || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q", bad, code, stderr)
		}
	}
}

// What is given for a backup is read up to a limit, wherever it comes from.
func TestABackupWithoutAnEndIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("reads what the largest backup may have")
	}
	if code, _, stderr := run(t, "restore", "--kubeconfig", "nowhere", "/dev/zero"); code == exitOK || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "which is the most that is read") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}
