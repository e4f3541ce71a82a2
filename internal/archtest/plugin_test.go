package archtest

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What is compiled for the plugin grows without anybody noticing, since it is imports of imports.
func TestThePluginStaysSmall(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{else}}std{{end}}", "./cmd/kubectl-berth")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := strings.Fields(string(out))
	others := slices.DeleteFunc(slices.Clone(packages), func(m string) bool { return m == module })
	if n := len(others); n > PluginPackages {
		t.Errorf("kubectl-berth compiles %d packages of others, more than %d", n, PluginPackages)
	}
	slices.Sort(packages)
	modules := slices.DeleteFunc(slices.Compact(packages), func(m string) bool { return m == "std" || m == module })
	for _, m := range modules {
		if !slices.Contains(Plugin, m) {
			t.Errorf("kubectl-berth compiles packages of %s, which archtest.Plugin does not list", m)
		}
	}
	for _, m := range Plugin {
		if !slices.Contains(modules, m) {
			t.Errorf("kubectl-berth compiles nothing of %s, which archtest.Plugin lists", m)
		}
	}
}
