package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/controlplane/home"
	"github.com/berth-dev/berth/diagnose"
)

// kubeconfigOf writes a kubeconfig with a context for each server; the first is the current one.
func kubeconfigOf(t *testing.T, file string, servers ...string) string {
	t.Helper()
	var clusters, contexts []string
	for _, s := range servers {
		name, server, _ := strings.Cut(s, "=")
		clusters = append(clusters, fmt.Sprintf("{name: %s, cluster: {server: %q, certificate-authority-data: %s}}", name, server, "Y2E="))
		contexts = append(contexts, fmt.Sprintf("{name: %s, context: {cluster: %s, namespace: of-%s}}", name, name, name))
	}
	first, _, _ := strings.Cut(servers[0], "=")
	text := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: %s, clusters: [%s], contexts: [%s]}", first, strings.Join(clusters, ", "), strings.Join(contexts, ", "))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// runs makes a cluster that seems to run on this machine.
func runs(t *testing.T, root, name, server string) home.Dir {
	t.Helper()
	d := home.Named(root, name)
	lock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Unlock() })
	if err := d.Save(home.Record{Format: home.Format, Name: name, PID: os.Getpid()}); err != nil {
		t.Fatal(err)
	}
	kubeconfigOf(t, d.Kubeconfig(), name+"="+server)
	return d
}

// A command asks the cluster that kubectl would ask, says so where another could have been meant, and prints commands
// that act on that one.
func TestWhichClusterIsAsked(t *testing.T) {
	dir := t.TempDir()
	none := filepath.Join(dir, "none")
	prod := kubeconfigOf(t, filepath.Join(dir, "prod"), "prod=https://prod:6443")
	two := kubeconfigOf(t, filepath.Join(dir, "two of them"), "prod=https://prod:6443", "test=https://test:6443")
	type want struct {
		Host, Namespace, Kubectl, Asked, Err string
	}
	for name, c := range map[string]struct {
		env  string
		here []string
		conn connection
		want want
	}{
		"kubectl's, where nothing runs here": {env: prod, want: want{
			Host: "https://prod:6443", Namespace: "of-prod", Kubectl: "kubectl --kubeconfig " + prod + " --context prod",
		}},
		"kubectl's, although one runs here": {env: prod, here: []string{"berth"}, want: want{
			Host: "https://prod:6443", Namespace: "of-prod", Kubectl: "kubectl --kubeconfig " + prod + " --context prod",
			Asked: "Asked: context \"prod\" at https://prod:6443 (not: --name berth)\n",
		}},
		"the current one of several": {env: two, want: want{
			Host: "https://prod:6443", Namespace: "of-prod", Kubectl: "kubectl --kubeconfig '" + two + "' --context prod",
			Asked: "Asked: context \"prod\" at https://prod:6443 (not: 1 more in the kubeconfig)\n",
		}},
		"the context given": {env: two, conn: connection{context: "test"}, want: want{
			Host: "https://test:6443", Namespace: "of-test", Kubectl: "kubectl --kubeconfig '" + two + "' --context test",
		}},
		"the kubeconfig given": {env: two, here: []string{"berth"}, conn: connection{kubeconfig: prod}, want: want{
			Host: "https://prod:6443", Namespace: "of-prod", Kubectl: "kubectl --kubeconfig " + prod + " --context prod",
		}},
		"by name, whatever kubectl would ask": {env: prod, here: []string{"berth", "lab"}, conn: connection{name: "lab", named: true}, want: want{
			Host: "https://127.0.0.1:7001", Namespace: "of-lab", Kubectl: "bin/berth kubectl --name lab",
		}},
		"kubectl's is one of this machine": {env: "lab", here: []string{"berth", "lab"}, want: want{
			Host: "https://127.0.0.1:7001", Namespace: "of-lab", Kubectl: "bin/berth kubectl --name lab",
			Asked: "Asked: cluster \"lab\" of this machine (not: --name berth)\n",
		}},
		"the only one here, where kubectl knows none": {here: []string{"lab"}, want: want{
			Host: "https://127.0.0.1:7000", Namespace: "of-lab", Kubectl: "bin/berth kubectl --name lab",
		}},
		"the usual one of several here": {here: []string{"lab", "berth"}, want: want{
			Host: "https://127.0.0.1:7001", Namespace: "of-berth", Kubectl: "bin/berth kubectl --name berth",
			Asked: "Asked: cluster \"berth\" of this machine (not: --name lab)\n",
		}},
		"a kubeconfig that is not there": {env: none, here: []string{"lab"}, want: want{
			Host: "https://127.0.0.1:7000", Namespace: "of-lab", Kubectl: "bin/berth kubectl --name lab",
			Asked: "Asked: cluster \"lab\" of this machine (not: $KUBECONFIG, which names no cluster)\n",
		}},
		"none of several": {here: []string{"a", "b"}, want: want{Err: "which cluster? give --name with one of: a, b; or --kubeconfig FILE"}},
		"none":            {want: want{Err: "there is no cluster \"berth\": `berth up --name berth` starts one; or give --kubeconfig for another cluster"}},
		"a context that is not there": {env: prod, here: []string{"berth"}, conn: connection{context: "gone"}, want: want{
			Err: `context "gone" does not exist`,
		}},
		"a name that is not there": {env: prod, here: []string{"berth"}, conn: connection{name: "gone", named: true}, want: want{
			Err: "there is no cluster \"gone\": `berth up --name gone` starts one, and --name chooses another (berth)",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			t.Setenv("BERTH_HOME", root)
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			for i, n := range c.here {
				d := runs(t, root, n, fmt.Sprintf("https://127.0.0.1:%d", 7000+i))
				if n == c.env {
					c.env = d.Kubeconfig()
				}
			}
			t.Setenv("KUBECONFIG", c.env)
			c.conn.program = "bin/berth"
			var got want
			chosen, err := c.conn.choose()
			if err != nil {
				got.Err = err.Error()
			} else {
				got = want{Host: chosen.config.Host, Namespace: c.conn.namespace(), Kubectl: chosen.kubectl, Asked: c.conn.asked()}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCommandsActOnTheClusterThatWasAsked(t *testing.T) {
	const at = "kubectl --context prod"
	for from, want := range map[string]string{
		"kubectl uncordon n1": at + " uncordon n1",
		"kubectl get job a -n b -o json | kubectl patch --local -f - -p '[{\"kubectl \":1}]' -o json | kubectl replace --force -f -": at +
			" get job a -n b -o json | " + at + " patch --local -f - -p '[{\"kubectl \":1}]' -o json | " + at + " replace --force -f -",
		"kubectl cordon a && kubectl delete pod kubectl && kubectl uncordon a": at + " cordon a && " + at + " delete pod kubectl && " + at + " uncordon a",
		"kubectl cordon a\nkubectl delete pod x":                               at + " cordon a\n" + at + " delete pod x",
		"echo 'kubectl x; kubectl y' | kubectl apply -f -":                     "echo 'kubectl x; kubectl y' | " + at + " apply -f -",
		"":                         "",
		"helm upgrade gpu":         "helm upgrade gpu",
		"kubectl get pods 'broken": at + " get pods 'broken",
	} {
		if got := addressed(from, at); got != want {
			t.Errorf("%q became\n%q, want\n%q", from, got, want)
		}
	}
	d := diagnose.Diagnosis{Advice: "To run it: kubectl scale deployment kubectl -n a --replicas=1", Fixes: []diagnose.Fix{{Command: "kubectl delete pod x"}}}
	address(&d, unaddressed)
	want := diagnose.Diagnosis{
		Advice: `To run it: kubectl --context "${CLUSTER:?}" scale deployment kubectl -n a --replicas=1`,
		Fixes:  []diagnose.Fix{{Command: `kubectl --context "${CLUSTER:?}" delete pod x`}},
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Error(diff)
	}
}

// Addressing changes nothing but the words in place of kubectl, whatever the script.
func FuzzAddressed(f *testing.F) {
	f.Add("kubectl get pods | kubectl apply -f -")
	f.Add("echo 'a' && kubectl delete pod 'x y'")
	f.Fuzz(func(t *testing.T, script string) {
		got := addressed(script, "kubectl --context c")
		if again := strings.ReplaceAll(got, "kubectl --context c", "kubectl"); !strings.Contains(script, "--context") && again != script {
			t.Errorf("%q became %q", script, got)
		}
	})
}

func TestNamesAreQuotedForTheShell(t *testing.T) {
	for word, want := range map[string]string{"prod": "prod", "a b": "'a b'", "$(rm)": `'$(rm)'`, "arn:aws:eks:x:1:cluster/y": "arn:aws:eks:x:1:cluster/y", "a\x1bb": `"${CLUSTER:?}"`, "": `"${CLUSTER:?}"`} {
		if got := shellWord(word); got != want {
			t.Errorf("%q is %s, want %s", word, got, want)
		}
	}
}
