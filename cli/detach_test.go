package cli

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/controlplane/home"
)

func TestADetachedChildGetsWhatTheParentWasAsked(t *testing.T) {
	o := &upOptions{name: "n", speed: 60, apiPort: 7000, defaultScheduler: "berth", gangGrace: time.Minute, deviceTimeout: time.Hour, policy: policyFlags{policy: "strict", heads: "4", overtake: time.Hour, moves: "on", packing: "priced", rates: []string{"H100=2"}}, dialects: []string{"kai"}, fleet: "lab", data: "/d", ephemeral: true, cold: true, merge: true}
	if got, want := strings.Join(o.childArgs(), " "), "up --name n --speed 60 --api-port 7000 --default-scheduler berth --gang-grace 1m0s --device-binding-timeout 1h0m0s --policy strict --gpu-rate H100=2 --dialect kai --data /d --ephemeral --cold --merge-kubeconfig"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	o.fleetGiven = true
	if got := strings.Join(o.childArgs(), " "); !strings.Contains(got, "--fleet lab") {
		t.Errorf("a fleet that was asked for got lost: %s", got)
	}
}

// What a crashed process wrote is kept while later ones write nothing, and its panic is shown, not its last goroutine.
func TestCrashOutputIsKept(t *testing.T) {
	dir := home.Dir{Path: t.TempDir()}
	write := func(text string) {
		t.Helper()
		f, err := openStderr(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	crash := "some line\npanic: index out of range [3]\n\ngoroutine 7 [running]:\n" + strings.Repeat("main.f()\n", 50) + "goroutine 8 [select]:\n"
	write(crash)
	words := lastWords(dir.Stderr())
	if !strings.HasPrefix(words, "panic: index out of range [3]\n") || strings.Count(words, "\n") != lastLines+1 || !strings.HasSuffix(words, "...\n") {
		t.Errorf("shown:\n%s", words)
	}
	write("")
	write("")
	if b, err := os.ReadFile(dir.Stderr() + ".old"); err != nil || string(b) != crash {
		t.Errorf("two quiet runs later the crash is %q (%v)", b, err)
	}
	if words := lastWords(dir.Stderr()); words != "" {
		t.Errorf("a quiet run is shown as %q", words)
	}
	write("one\ntwo\n")
	if words := lastWords(dir.Stderr()); words != "one\ntwo\n" {
		t.Errorf("shown: %q", words)
	}
	if info, err := os.Stat(dir.Stderr()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v (%v), want mode 0600", info.Mode(), err)
	}
}
