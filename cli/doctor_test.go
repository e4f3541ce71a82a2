package cli

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/doctor"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine"
)

// wholeCheckup has every field.
func wholeCheckup() doctor.Checkup {
	usage := doctor.Usage{Nodes: 3, FreeNodes: 1, GPUs: 23, Allocated: 12, InUse: 16, Utilisation: 0.5217, Fragmentation: 0.25}
	pool, model := usage, usage
	pool.Pool, model.Model = "h100", "NVIDIA-H100-80GB-HBM3"
	return doctor.Checkup{
		APIVersion: doctor.APIVersion, Kind: doctor.Kind, At: whyTime, Kubernetes: "v1.37.1", Severity: doctor.Fail,
		Items: []doctor.ItemResult{
			{
				Item: "capacity", Title: "nodes offer all the GPUs that they have", Severity: doctor.Fail, Summary: "node h100-1: 7 of 8 nvidia.com/gpu are allocatable; and 1 more finding",
				Findings: []doctor.Finding{
					{
						Severity: doctor.Fail, Message: "node h100-1: 7 of 8 nvidia.com/gpu are allocatable", Owner: check.Platform, Objects: []string{"node/h100-1"}, Count: 1,
						Evidence: []facts.Evidence{{Object: "node/h100-1", Field: `status.allocatable["nvidia.com/gpu"]`, Value: "7"}, {Object: "node/h100-1", Field: `status.capacity["nvidia.com/gpu"]`, Value: "8"}},
						Next:     "read the kernel log of the machine for Xid errors; drain it, then reset or replace the GPU", Command: "kubectl describe node h100-1",
					},
					{
						Severity: doctor.Note, Message: "5,000 nodes are new", Owner: check.Nobody, Objects: []string{"node/a", "node/b"}, Count: 5000,
						Evidence: []facts.Evidence{{Object: "node/a", Field: "x", Value: ""}, {Object: "node/b", Field: "x", Value: "1"}, {Object: "node/c", Field: "x", Value: "2"}, {Object: "node/d", Field: "x", Value: "3"}}, Next: "wait",
					},
				},
			},
			{Item: "xid", Title: "no GPU reports an Xid error", Severity: doctor.Unknown, Summary: "not measured: give --metrics a file or URL of dcgm-exporter"},
			{Item: "queues", Title: "every queue can be met", Severity: doctor.OK, Summary: "4 queues"},
			{Item: "utilisation", Title: "free GPUs are where work can use them", Severity: doctor.OK, Summary: "12 of 23 nvidia.com/gpu in use (52 %), fragmentation 25 %"},
		},
		GPUs: []doctor.Capacity{{
			Resource: "nvidia.com/gpu", All: usage, Pools: []doctor.Usage{pool}, Models: []doctor.Usage{model, {Nodes: 1, GPUs: 8}},
			Largest: []engine.Largest{{Model: "H100", GPUs: 11}, {Model: "H100", Level: "rack", Domain: "r1", GPUs: 11}, {Model: "H100", Level: "node", Domain: "h100-2", GPUs: 8}},
		}},
		Unseen: []facts.Unseen{{Resource: "resourcequotas", Reason: "forbidden"}},
	}
}

// The fields are a contract with other tools: a change here is a change for them.
func TestDoctorAsJSON(t *testing.T) {
	var got strings.Builder
	whole := wholeCheckup()
	for _, value := range []any{whole, doctor.Checkup{APIVersion: doctor.APIVersion, Kind: doctor.Kind, Severity: doctor.OK, Items: []doctor.ItemResult{}}} {
		if done, err := printData(&got, value, "json"); !done || err != nil {
			t.Fatal(done, err)
		}
	}
	golden(t, "doctor.json", got.String())
}

func TestDoctorPages(t *testing.T) {
	whole := wholeCheckup()
	fine := doctor.Checkup{Items: whole.Items[2:3]}
	var got strings.Builder
	for _, c := range []struct {
		title string
		page  doctorPage
		of    *doctor.Checkup
	}{
		{"in full", doctorPage{}, &whole}, {"70 columns, in colour", doctorPage{columns: 70, colour: true}, &whole}, {"verbose", doctorPage{verbose: true}, &whole}, {"well", doctorPage{}, &fine},
	} {
		got.WriteString("-- " + c.title + " --\n" + c.page.text(c.of))
	}
	golden(t, "doctor.txt", string(harmless([]byte(got.String())))) // as a terminal gets it
}

// sickCluster is smallCluster whose GPU has failed.
func sickCluster() map[string]any {
	cluster := smallCluster()
	nodes := cluster["/api/v1/nodes?limit=500"].(corev1.NodeList)
	nodes.Items[0].Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("0")
	return cluster
}

func TestDoctorExitCodes(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	fit, sick := apiServer(t, smallCluster()), apiServer(t, sickCluster())
	blind := smallCluster()
	blind["/api/v1/nodes?limit=500"] = apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
	within := apiServer(t, blind)
	good, bad := filepath.Join(t.TempDir(), "good.prom"), filepath.Join(t.TempDir(), "bad.prom")
	if err := errors.Join(os.WriteFile(good, []byte("DCGM_FI_DEV_XID_ERRORS{gpu=\"0\",Hostname=\"gpu-1\"} 79\n"), 0o600), os.WriteFile(bad, []byte("<html>"), 0o600)); err != nil {
		t.Fatal(err)
	}
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
		case "/moved":
			http.Redirect(w, r, "/metrics", http.StatusFound)
			return
		default:
			http.NotFound(w, r)
			return
		}
		w.Write([]byte("DCGM_FI_DEV_ROW_REMAP_FAILURE{gpu=\"0\",Hostname=\"gpu-1\"} 1\n"))
	}))
	defer exporter.Close()
	for _, c := range []struct {
		args      string
		code      int
		out, errs string
	}{
		{"doctor --kubeconfig " + fit, exitOK, "No failure was seen, and not everything could be looked at", ""},
		{"doctor --kubeconfig " + fit + " --fail-on warn", exitFailed, "without owner, queue or team", ""},
		{"doctor nodes capacity --kubeconfig " + fit + " --fail-on note", exitOK, "Fit for GPU work: 2 items looked at, all ok.", ""},
		{"doctor --kubeconfig " + sick, exitFailed, "fail       capacity", ""},
		{"doctor --kubeconfig " + sick + " --fail-on never", exitOK, "Not fit for GPU work", ""},
		{"doctor capacity -o json --kubeconfig " + sick, exitFailed, `"item": "capacity"`, ""},
		{"doctor capacity -o name --kubeconfig " + sick, exitFailed, "capacity\n", ""},
		{"doctor --kubeconfig " + fit + " --metrics " + good, exitFailed, "Xid 79 (GPU has fallen off the bus) on GPU 0 of gpu-1", ""},
		{"doctor --kubeconfig " + fit + " --metrics " + good + " --metrics " + exporter.URL + "/metrics ecc", exitFailed, "could not be remapped on GPU 0 of gpu-1", ""},
		{"doctor --kubeconfig " + within, exitUnknown, "not looked at: you may not list nodes in the whole cluster", ""},
		{"doctor --kubeconfig " + within + " --fail-on unknown nodes", exitFailed, "unknown", ""},
		{"doctor priorities --kubeconfig " + within, exitOK, "priorities", ""},
		{"doctor --kubeconfig " + fit + " --metrics " + bad, exitUnknown, "", "bad.prom: text from line 1 on"},
		{"doctor --kubeconfig " + fit + " --metrics " + exporter.URL + "/gone", exitUnknown, "", "the exporter answered 404"},
		{"doctor --kubeconfig " + fit + " --metrics " + exporter.URL + "/moved", exitUnknown, "", "the exporter answered 302"},
		{"doctor --kubeconfig " + fit + " --metrics nowhere.prom", exitUnknown, "", "nowhere.prom: no such file"},
		{"doctor frobnicate", exitUsage, "", `"frobnicate" is no item of the checklist`},
		{"doctor --fail-on bad", exitUsage, "", `--fail-on "bad"`},
		{"doctor -o xml", exitUsage, "", `--output "xml"`},
		{"doctor --watch --from x", exitUsage, "", "watch"},
		{"doctor --watch --metrics -", exitUsage, "", "a file or a URL"},
	} {
		code, stdout, stderr := run(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout, c.out) || !strings.Contains(stderr, c.errs) || c.errs == "" && stderr != "" || c.out == "" && stdout != "" {
			t.Errorf("berth %s: code %d, stdout\n%s\nstderr %q; want %d, %q, %q", c.args, code, stdout, stderr, c.code, c.out, c.errs)
		}
	}
}

var taken = regexp.MustCompile(`"at": "[^"]*"`)

// A bundle gives the answers of the cluster that it was taken of.
func TestDoctorFromIsTheSame(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	kubeconfig := apiServer(t, sickCluster())
	bundle := bundleOf(t, kubeconfig)
	for _, args := range []string{"doctor", "doctor -v", "doctor -o json", "doctor capacity utilisation -o json"} {
		code, stdout, _ := run(t, append(strings.Fields(args), "--kubeconfig", kubeconfig)...)
		code2, stdout2, _ := run(t, append(strings.Fields(args), "--from", bundle)...)
		same := func(s string) string { return taken.ReplaceAllString(since.ReplaceAllString(s, "AGE"), "TIME") }
		if code != exitFailed || code != code2 || same(stdout) != same(stdout2) {
			t.Errorf("berth %s: code %d, stdout\n%s\nfrom the bundle %d, stdout\n%s", args, code, stdout, code2, stdout2)
		}
	}
}

// lines is a stream that can be read while it is written to.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
	seen func(string)
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	l.seen(l.text.String())
	return len(p), nil
}

// Watching prints everything once, and then what changed, until it is interrupted.
func TestDoctorWatches(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	cluster := smallCluster()
	nodes := cluster["/api/v1/nodes?limit=500"].(corev1.NodeList)
	ctx, interrupt := context.WithTimeout(t.Context(), time.Minute)
	defer interrupt()
	o := &doctorOptions{items: []string{"nodes", "capacity"}, output: "table", failOn: "fail", every: 20 * time.Millisecond}
	o.kubeconfig = apiServer(t, cluster)
	out := &lines{}
	failing := sync.OnceFunc(func() {
		broken := *nodes.DeepCopy()
		broken.Items[0].Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("0")
		cluster["/api/v1/nodes?limit=500"] = broken // the server answers one request after the other, and this is between them
	})
	out.seen = func(text string) {
		if strings.Contains(text, "2 items looked at, all ok") {
			failing()
		}
		if strings.Contains(text, "capacity: fail, was ok: node gpu-1: 0 of 1 nvidia.com/gpu are allocatable") {
			interrupt()
		}
	}
	o.streams = Streams{Out: out, Err: out}
	var exit exitError
	if err := o.watchOn(ctx); !errors.As(err, &exit) || exit.code != exitFailed || exit.err != nil {
		t.Errorf("%v\n%s", err, out.text.String())
	}
	if n := strings.Count(out.text.String(), "SEVERITY"); n != 1 {
		t.Errorf("the table is printed %d times:\n%s", n, out.text.String())
	}
}

func TestDoctorCompletes(t *testing.T) {
	for args, want := range map[string]string{"capa": "capacity\n", "capacity que": "queues\n", "--fail-on n": "note\nnever\n"} {
		code, stdout, _ := run(t, append([]string{"__complete", "doctor"}, strings.Fields(args)...)...)
		if code != exitOK || !strings.HasPrefix(stdout, want) {
			t.Errorf("berth doctor %s: code %d, %q, want %q", args, code, stdout, want)
		}
	}
}
