package cli

import (
	"os"
	"strings"
	"testing"
)

// What deploy/ installs is of this version.
func TestDeployIsOfThisVersion(t *testing.T) {
	var want []byte
	for _, name := range []string{"berth", "berth-1.36"} {
		text, err := os.ReadFile("../deploy/manifests/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, text...)
	}
	code, stdout, stderr := small(t, "install", "--manifests")
	if code != exitOK || stdout != string(want) {
		t.Errorf("exit code %d, %s; deploy/manifests is not what `berth install --manifests` prints: go test ./kube/install -update", code, stderr)
	}
}

func TestBadInstallationsAreOneClearLine(t *testing.T) {
	bad := configFile(t, configHead+"policy: fair\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"install"}, "which cluster? give --kubeconfig FILE"},
		{[]string{"uninstall"}, "which cluster? give --kubeconfig FILE"},
		{[]string{"install", "--manifests", "--image", ""}, `--image ""`},
		{[]string{"install", "--manifests", "--image", "a\nb"}, `--image "a\nb"`},
		{[]string{"install", "--manifests", "--replicas", "-1"}, "--replicas -1"},
		{[]string{"install", "--manifests", "--cpu", "much"}, `--cpu "much"`},
		{[]string{"install", "--manifests", "--memory", "-1Gi"}, `--memory "-1Gi"`},
		{[]string{"install", "--manifests", "--config", "nowhere"}, "no such file"},
		{[]string{"install", "--manifests", "--config", bad}, `--policy "fair": choose`},
		{[]string{"install", "--manifests", "--preflight"}, "none of the others can be"},
	} {
		code, stdout, stderr := small(t, c.args...)
		if code != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d, %q, %s", c.args, code, stdout, stderr)
		}
	}
	if code, _, stderr := small(t, "install", "--kubeconfig", "nowhere"); code != exitUnknown || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
