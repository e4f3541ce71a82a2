package cli

import (
	"bytes"
	"strings"
	"testing"
)

// small calls the command line as cmd/kubectl-berth does: without a control plane.
func small(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("BERTH_HOME", t.TempDir())
	var out, errOut bytes.Buffer
	code = Main(args, Streams{In: strings.NewReader(""), Out: &out, Err: &errOut}, Deps{Program: "/usr/bin/kubectl-berth"})
	return code, out.String(), errOut.String()
}

func TestThePluginHasNoControlPlane(t *testing.T) {
	for _, command := range []string{"up", "down", "status", "kubectl", "fleet"} {
		if code, _, stderr := small(t, command); code != exitUsage || !strings.HasPrefix(stderr, "error: unknown command \""+command+"\" for \"kubectl berth\"") {
			t.Errorf("%s: exit code %d, %s", command, code, stderr)
		}
	}
	for _, command := range []string{"why", "check", "doctor", "whatif", "jobs", "queue", "evidence", "replay", "scheduler", "completion"} {
		if code, stdout, stderr := small(t, command, "--help"); code != exitOK || !strings.Contains(stdout, "kubectl berth "+command) {
			t.Errorf("%s: exit code %d, %s%s", command, code, stdout, stderr)
		}
	}
}

func TestThePluginSaysNothingOfAKubernetesInside(t *testing.T) {
	if _, stdout, _ := small(t, "version"); stdout != "berth "+Version+"\n" {
		t.Errorf("got %q", stdout)
	}
}

// A command that the plugin prints has to be one that its user has.
func TestThePluginPrintsTheUsersKubectl(t *testing.T) {
	cmd := newRoot(Streams{}, Deps{})
	if hasKubectl(cmd) {
		t.Error("the plugin has a kubectl")
	}
	if !hasKubectl(newRoot(Streams{}, Deps{Lab: Lab})) {
		t.Error("berth has no kubectl")
	}
}
