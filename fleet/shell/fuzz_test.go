package shell

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// FuzzScript runs scripts for a moment. They must not panic, must end when told to, and must
// leave a directory of the host, which is also their TMPDIR, as it was.
func FuzzScript(f *testing.F) {
	for _, name := range []string{"testdata/control.txtar", "testdata/expansion.txtar", "testdata/files.txtar", "testdata/jobs.txtar"} {
		a, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			if file.Name == "cmd" {
				f.Add(string(file.Data))
			}
		}
	}
	for _, script := range endings {
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script string) {
		host := t.TempDir()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, Kill)
		defer cancel()
		var errs output
		p := &Process{
			Args: []string{"sh", "-c", script}, Env: []string{"TMPDIR=" + host, "HOST=" + host}, Dir: "/tmp",
			Stdin: strings.NewReader("line\n" + script), Stdout: &output{}, Stderr: &errs, Container: newContainer(),
		}
		ended := make(chan int, 1)
		go func() { ended <- Run(ctx, p) }()
		select {
		case status := <-ended:
			if status < 0 || status > 255 {
				t.Errorf("status %d", status)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("it does not end")
		}
		if text := errs.String(); strings.Contains(text, "internal error") {
			t.Error(text)
		}
		if list, err := os.ReadDir(host); err != nil || len(list) > 0 {
			t.Errorf("the host has %v, %v", list, err)
		}
	})
}
