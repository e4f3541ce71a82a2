package l2

import (
	"strings"
	"testing"
)

func TestMissingHandler(t *testing.T) {
	for message, want := range map[string]string{
		`Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "nvidia" is configured`:                             "nvidia",
		`Failed to create pod sandbox: rpc error: code = Unknown desc = unable to get OCI runtime for sandbox "5d1": no runtime for "nvidia-cdi" is configured`:           "nvidia-cdi",
		`Failed to create pod sandbox: rpc error: code = Unknown desc = failed to find runtime handler nvidia from runtime list map[crun:0xc1 runc:0xc2]`:                 "nvidia",
		`Failed to create pod sandbox: rpc error: code = Unknown desc = RuntimeHandler "nvidia" not supported`:                                                            "nvidia",
		`Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "5d1": plugin type="calico" failed (add): connection refused`: "",
		"": "",
	} {
		if got := missingHandler(message); got != want {
			t.Errorf("%q: handler %q, want %q", message, got, want)
		}
	}
}

func FuzzMissingHandler(f *testing.F) {
	f.Add(`no runtime for "nvidia" is configured`)
	f.Add(`failed to find runtime handler nvidia from runtime list map[]`)
	f.Fuzz(func(t *testing.T, s string) {
		if h := missingHandler(s); h != "" && !strings.Contains(s, h) {
			t.Errorf("%q: handler %q", s, h)
		}
	})
}
