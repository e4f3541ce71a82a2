package answer

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine/why"
)

var update = flag.Bool("update", false, "rewrite testdata")

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// waiting is a workload of namespace a that waits for those of a, b and c.
func waiting() Workload {
	ref := func(namespace, name string) Reference {
		return Reference{Namespace: namespace, Name: Named("gang", name)}
	}
	return Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "gang.mine", CreationTimestamp: metav1.NewTime(noon)},
		Owner:      &Owner{"Job", "mine"}, Queue: "research", Priority: 7, State: Waiting, GPUs: 8,
		Pods:     Pods{Size: 4, Min: 4, Waiting: 4, Names: []string{"mine-0", "mine-1", "mine-2", "mine-3"}},
		Position: &Position{Place: 3, Of: 9, InQueue: 1, Ahead: []Reference{ref("b", "theirs"), ref("a", "before")}},
		Verdict:  why.Impossible, Cause: why.TopologyFragmented,
		ETA:     &ETA{Earliest: noon.Add(time.Hour), Likely: noon.Add(90 * time.Minute), Because: "2 workloads end by 13:30"},
		Promise: &Promise{Start: noon.Add(2 * time.Hour), Since: noon},
		Gates:   []why.Gate{{Cause: why.TopologyFragmented, Object: "rack", Need: 4, Have: 2}},
		Certificates: []why.Certificate{{
			Need: 4, Level: "rack", Request: []why.Amount{{Resource: "nvidia.com/gpu", Value: 2}}, Total: 5, IfEvicted: 1,
			Domains: []why.Domain{
				{Name: "", Rows: []why.Row{{Nodes: 1, Example: "stray"}}},
				{Name: "z1/r1", Fits: 3, Rows: []why.Row{{Class: 0, Nodes: 2, Fits: 3, Example: "r1-n1", Removed: []why.Clause{
					{Kind: why.ByRefusal, Detail: "node r1-n2 said no", Nodes: 1}, {Kind: why.ByWholeNode, Detail: "b/gang/theirs", Nodes: 1},
				}}}},
				{Name: "z1/r2", Fits: 2, Rows: []why.Row{{Class: 0, Nodes: 1, Fits: 2, Example: "r2-n1", Short: []why.Short{{Resource: "nvidia.com/gpu", Nodes: 1, By: 2}}}}},
			},
			Classes: []why.Class{{Allocatable: []why.Amount{{Resource: "nvidia.com/gpu", Value: 8}}, PerEmpty: 4}},
		}},
		Holders: &Holders{Resource: "nvidia.com/gpu", Items: []Holder{
			{ref("b", "theirs"), 16}, {ref("a", "before"), 8}, {ref("c", "small"), 2},
		}},
	}
}

// blocked is a workload of namespace a of which no start is expected; its sentence names a rack.
func blocked() Workload {
	w := waiting()
	w.Name, w.Owner, w.Promise = "gang.blocked", &Owner{"Job", "blocked"}, nil
	w.ETA = &ETA{Cause: why.TopologyFragmented, Because: w.Gates[0].Sentence(w.Certificates)}
	return w
}

// evicted is a workload of namespace a that gives back what it borrowed.
func evicted() Workload {
	return Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "gang.guest", CreationTimestamp: metav1.NewTime(noon)},
		Owner:      &Owner{"Job", "guest"}, Queue: "research", State: Running, GPUs: 8, Borrowed: 8,
		Pods:     Pods{Size: 4, Min: 4, Placed: 4, Running: 4, Names: []string{"guest-0", "guest-1", "guest-2", "guest-3"}},
		Evicting: &Evicting{Pods: 4, Cause: "reclaimed", For: &Reference{Namespace: "b", Name: "gang.theirs"}, At: noon.Add(time.Minute)},
	}
}

// tenant may see namespace a and nothing else.
func tenant(c *court) caller {
	c.rights["tenant"] = []string{"list workloads a", "get workloads a", "list pods a", "list queues a", "get queues a", "list configurations a", "get configurations a"}
	return c.proxied("tenant")
}

func admin(c *court) caller {
	c.rights["admin"] = []string{
		"list workloads *", "get workloads *", "list pods *", "list nodes *", "list queues *", "get queues *", "list configurations *", "get configurations *", "get /metrics",
	}
	return c.proxied("admin")
}

func TestOneWorkload(t *testing.T) {
	c := newCourt(t, &known{workloads: []Workload{waiting(), evicted(), blocked()}})
	const path = listOfA + "/gang.mine"
	golden(t, "workload-admin.json", want[Workload](c, admin(c), path))
	golden(t, "workload-tenant.json", want[Workload](c, tenant(c), path))
	golden(t, "workload-evicted.json", want[Workload](c, admin(c), listOfA+"/gang.guest"))
	if w := want[Workload](c, tenant(c), listOfA+"/gang.guest"); w.Evicting == nil || w.Evicting.For != nil {
		t.Errorf("a tenant is told who it is evicted for: %+v", w.Evicting)
	}
	golden(t, "workload-blocked.json", want[Workload](c, tenant(c), listOfA+"/gang.blocked"))
	if w := want[Workload](c, admin(c), listOfA+"/gang.blocked"); !strings.Contains(w.ETA.Because, "r1") {
		t.Errorf("an administrator is not told the rack: %+v", w.ETA)
	}
	if w := want[Workload](c, tenant(c), listOfA+"/gang.blocked"); w.ETA.Cause == "" || strings.Contains(w.ETA.Because, "r1") {
		t.Errorf("a tenant is told a rack's name, or not why no start is expected: %+v", w.ETA)
	}
	if code, body := c.ask(tenant(c), path); code != 200 || strings.Contains(body, "theirs") || strings.Contains(body, "small") ||
		strings.Contains(body, "r1") || strings.Contains(body, "stray") {
		t.Errorf("a tenant is told a name that is not theirs to know: %d %s", code, body)
	}
	if diff := cmp.Diff(waiting(), (*c.server.source.Load()).(*known).workloads[0]); diff != "" {
		t.Errorf("hiding wrote to what is shared:\n%s", diff)
	}
}

// How the scheduler is set up is told to who may ask about a namespace, for that namespace, and to nobody else.
func TestConfiguration(t *testing.T) {
	c := newCourt(t, &known{})
	const root = "/apis/" + GroupVersion
	golden(t, "configuration.json", want[Configuration](c, tenant(c), root+"/namespaces/a/configurations/berth"))
	if list := want[ConfigurationList](c, admin(c), root+"/configurations"); len(list.Items) != 1 || list.Items[0].Engine.Policy != "strict" {
		t.Errorf("list: %+v", list)
	}
	for path, code := range map[string]int{"/configurations": 403, "/namespaces/b/configurations": 403, "/configurations/berth": 403, "/namespaces/a/configurations/other": 404, "/namespaces/a/configurations?watch=true": 405} {
		if got, body := c.ask(tenant(c), root+path); got != code {
			t.Errorf("%s: %d, want %d: %s", path, got, code, body)
		}
	}
}

func golden(t *testing.T, name string, value any) {
	t.Helper()
	got, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s:\n%s", path, diff)
	}
}

func TestListsAreOfWhatTheCallerMaySee(t *testing.T) {
	other := waiting()
	other.Namespace, other.Name, other.Owner, other.State = "b", "pod.theirs", nil, Running
	c := newCourt(t, &known{workloads: []Workload{waiting(), other}})
	c.rights["stranger"] = []string{"list pods *"}
	const all = "/apis/" + GroupVersion + "/workloads"
	names := func(who caller, path string) (out []string) {
		for _, w := range want[WorkloadList](c, who, path).Items {
			out = append(out, w.Namespace+"/"+w.Name)
			if w.Gates != nil || w.Certificates != nil || w.Pods.Names != nil || w.Sentence == "" {
				t.Errorf("a line tells too much or too little: %+v", w)
			}
		}
		return out
	}
	for _, q := range []struct {
		who  caller
		path string
		want []string
	}{
		{admin(c), all, []string{"a/gang.mine", "b/pod.theirs"}},
		{tenant(c), all, []string{"a/gang.mine"}},
		{tenant(c), listOfA, []string{"a/gang.mine"}},
		{admin(c), all + "?state=running", []string{"b/pod.theirs"}},
		{admin(c), all + "?of=job/mine", []string{"a/gang.mine"}},
		{admin(c), all + "?of=mine-2", []string{"a/gang.mine", "b/pod.theirs"}},
		{admin(c), all + "?of=deployment/mine", nil},
	} {
		if diff := cmp.Diff(q.want, names(q.who, q.path)); diff != "" {
			t.Errorf("%s for %s:\n%s", q.path, q.who.headers["X-Remote-User"], diff)
		}
	}
	for who, path := range map[string]string{"stranger": all, "tenant": "/apis/" + GroupVersion + "/namespaces/b/workloads"} {
		if code, body := c.ask(c.proxied(who), path); code != http.StatusForbidden || strings.Contains(body, "theirs") {
			t.Errorf("%s asks for %s: %d %s", who, path, code, body)
		}
	}
}

func TestWhatIsNotThere(t *testing.T) {
	c := newCourt(t, &known{workloads: []Workload{waiting()}})
	who := admin(c)
	for path, want := range map[string]int{
		listOfA + "/gang.gone":                   404,
		"/nothing":                               404,
		listOfA + "?watch=true":                  405,
		"/apis/" + GroupVersion + "/queues/none": 404,
	} {
		if code, body := c.ask(who, path); code != want || !strings.Contains(body, `"kind":"Status"`) {
			t.Errorf("%s: %d %s, want %d", path, code, body, want)
		}
	}
	who.method = http.MethodDelete
	if code, body := c.ask(who, listOfA+"/gang.mine"); code != http.StatusMethodNotAllowed {
		t.Errorf("a write: %d %s", code, body)
	}
	c.server.Lead(nil)
	if code, _ := c.ask(admin(c), listOfA); code != http.StatusServiceUnavailable {
		t.Errorf("without a leader: %d", code)
	}
}

func TestABusySchedulerSaysSo(t *testing.T) {
	c := newCourt(t, &known{workloads: []Workload{waiting()}, err: ErrBusy})
	code, body := c.ask(admin(c), listOfA)
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "busy") || !strings.Contains(body, `"retryAfterSeconds":1`) {
		t.Errorf("%d %s", code, body)
	}
}

func TestQueuesOfANamespace(t *testing.T) {
	queue := func(name string, namespaces []string) Queue {
		amount := func(n int64) []why.Amount { return []why.Amount{{Resource: "nvidia.com/gpu", Value: n}} }
		return Queue{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Parent: "lab", Warnings: []string{"the queues below it are promised 9 of nvidia.com/gpu, and it has 4"},
			Quota: amount(4), Limits: amount(16), Weight: 2, Used: amount(6), Borrowed: amount(2), Wanted: amount(8), Share: amount(10),
			Running: Demand{2, 6}, Waiting: Demand{1, 8}, GPUSeconds: 36000,
			Budgets:    []Budget{{Resource: "nvidia.com/gpu", Seconds: 360000, Spent: 7200, PeriodSeconds: 604800}},
			Namespaces: namespaces,
		}
	}
	c := newCourt(t, &known{queues: []Queue{queue("all", nil), queue("nobody", []string{}), queue("ours", []string{"a"}), queue("theirs", []string{"b"})}})
	names := func(who caller, path string) (out []string) {
		for _, q := range want[QueueList](c, who, "/apis/"+GroupVersion+path).Items {
			out = append(out, q.Name)
		}
		return out
	}
	if diff := cmp.Diff([]string{"all", "nobody", "ours", "theirs"}, names(admin(c), "/queues")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"all", "ours"}, names(tenant(c), "/namespaces/a/queues")); diff != "" {
		t.Error(diff)
	}
	for _, path := range []string{"/queues", "/queues/ours", "/namespaces/b/queues", "/namespaces/a/queues/theirs"} {
		if code, body := c.ask(tenant(c), "/apis/"+GroupVersion+path); code != 403 && code != 404 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	golden(t, "queue.json", want[Queue](c, tenant(c), "/apis/"+GroupVersion+"/namespaces/a/queues/ours"))
}

func TestDiscoveryTellsOfReadingAlone(t *testing.T) {
	c := newCourt(t, nil) // also while another leads
	got := want[metav1.APIResourceList](c, c.proxied("anybody"), "/apis/"+GroupVersion)
	for _, r := range got.APIResources {
		verbs := metav1.Verbs{"get", "list"}
		if r.Name == PageResource {
			verbs = metav1.Verbs{"get"}
		}
		if diff := cmp.Diff(verbs, r.Verbs); diff != "" {
			t.Errorf("%s:\n%s", r.Name, diff)
		}
	}
	if len(got.APIResources) != 4 {
		t.Errorf("%+v", got)
	}
}

func TestMetricsAreForThoseWhoMayReadThem(t *testing.T) {
	c := newCourt(t, &known{})
	if code, _ := c.ask(tenant(c), "/metrics"); code != http.StatusForbidden {
		t.Errorf("a tenant: %d", code)
	}
	_, body := c.ask(admin(c), "/metrics")
	if want := "berth_scheduler_cycles_total 3\n"; body != want {
		t.Errorf("got %q, want %q", body, want)
	}
}

func TestKubectlGetsATable(t *testing.T) {
	c := newCourt(t, &known{workloads: []Workload{waiting()}})
	who := admin(c)
	who.headers["Accept"] = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	code, body := c.ask(who, listOfA)
	var table metav1.Table
	if err := json.Unmarshal([]byte(body), &table); code != 200 || err != nil || table.Kind != "Table" || len(table.Rows) != 1 {
		t.Fatalf("%d %v %s", code, err, body)
	}
	if got, want := fmt.Sprint(table.Rows[0].Cells[:7]...), fmt.Sprint("gang.mine", "research", 7.0, "waiting", "0/4", 8.0, "3"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Named are so many; the others are counted.
func TestManyHoldersAreCounted(t *testing.T) {
	h := &Holders{}
	for i := range 50 {
		h.Items = append(h.Items, Holder{Reference{Namespace: fmt.Sprint("n", i%2)}, int64(100 - i)})
	}
	got := view{pods: func(namespace string) bool { return namespace == "n1" }}.holders(h)
	if len(got.Items) != mostNamed || got.Others.Workloads != 30 || got.Items[0].Amount != 99 {
		t.Errorf("%d named, %+v", len(got.Items), got.Others)
	}
}

func TestIs(t *testing.T) {
	w := waiting()
	for what, want := range map[string]bool{
		"mine": true, "job/mine": true, "Job/mine": true, "gang/mine": true, "pod/mine-1": true, "mine-1": true,
		"pod/mine": false, "job/mine-1": false, "mine-9": false, "": false, "/": false, "deployment/mine": false,
	} {
		if got := w.Is(what); got != want {
			t.Errorf("%q: %v", what, got)
		}
	}
	alone := Workload{ObjectMeta: metav1.ObjectMeta{Name: "pod.g-0"}, Group: "g"}
	for what, want := range map[string]bool{"g": true, "podgroup/g": true, "pod/g": false, "gang/g": false, "pod/g-0": true} {
		if got := alone.Is(what); got != want {
			t.Errorf("in a group, %q: %v", what, got)
		}
	}
}
