package inspect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/diagnose/facts"
)

func gather(t *testing.T, o Options) *facts.Facts {
	t.Helper()
	f, err := Gather(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// full is a world with one object of every kind, each with a history that nobody needs.
func full(t *testing.T) *world {
	w := &world{t: t}
	for _, k := range facts.Kinds {
		o := k.New()
		o.SetName("one")
		if k.Namespaced {
			o.SetNamespace("team-a")
		}
		if k.Resource == "configmaps" {
			o.SetNamespace(autoscalerNamespace)
			o.SetName(autoscalerConfigMap)
		}
		o.SetAnnotations(map[string]string{"mine": "kept", corev1.LastAppliedConfigAnnotation: "{}"})
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply}})
		w.add(o)
	}
	return w
}

// What was last applied is read where it says how the object was before.
func TestTrimKeepsWhatWasLastApplied(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes int
		owned bool
		kept  bool
	}{{"written by a person", 100, false, true}, {"large", mostApplied + 1, false, false}, {"made by a controller", 100, true, false}} {
		p := pod("team-a", "train")
		p.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: strings.Repeat(" ", c.bytes)}
		if c.owned {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "train", Controller: new(true)}}
		}
		trim(p)
		if _, kept := p.Annotations[corev1.LastAppliedConfigAnnotation]; kept != c.kept {
			t.Errorf("%s: kept %v", c.name, kept)
		}
	}
}

func TestReadsEveryKind(t *testing.T) {
	w := full(t)
	json := 0
	w.say = func(_ http.ResponseWriter, r *http.Request) bool {
		if k, _, _, _ := kindAt(r); k != nil && !k.Foreign && !strings.HasPrefix(r.Header.Get("Accept"), "application/vnd.kubernetes.protobuf") {
			json++
		}
		return false
	}
	var steps [][2]int
	f := gather(t, Options{Config: w.start(), Progress: func(done, total int) { steps = append(steps, [2]int{done, total}) }})
	for _, k := range facts.Kinds {
		list := k.List(&f.Objects)
		if len(list) != 1 {
			t.Errorf("%s: %d objects, want 1", k.Name(), len(list))
			continue
		}
		if diff := cmp.Diff(map[string]string{"mine": "kept", corev1.LastAppliedConfigAnnotation: "{}"}, list[0].GetAnnotations()); diff != "" || len(list[0].GetManagedFields()) > 0 {
			t.Errorf("%s: history was not dropped: %s%v", k.Name(), diff, list[0].GetManagedFields())
		}
	}
	if len(f.Unseen) > 0 || json > 0 {
		t.Errorf("unseen %v; %d kinds not asked for as protobuf", f.Unseen, json)
	}
	if !f.At.Equal(noon) || f.Kubernetes != "v1.37.1" {
		t.Errorf("at %s on %s, want the API server's time and version", f.At, f.Kubernetes)
	}
	if n := len(facts.Kinds); len(steps) != n || steps[0] != [2]int{1, n} || steps[n-1] != [2]int{n, n} {
		t.Errorf("progress %v", steps)
	}
}

// kindAt is the kind that a request is about; nil for discovery and the like.
func kindAt(r *http.Request) (k *facts.KindInfo, version, namespace, name string) {
	if strings.Count(r.URL.Path, "/") < 3 {
		return nil, "", "", ""
	}
	return request(r.URL.Path)
}

func TestAsksForNoMoreThanItNeeds(t *testing.T) {
	w := full(t)
	gather(t, Options{Config: w.start(), Namespace: "team-a"})
	for _, a := range w.asked {
		if strings.Contains(a, "secrets") || strings.HasPrefix(a, "/api/v1/configmaps") {
			t.Errorf("asked for %s", a)
		}
		if strings.Contains(a, "/leases") && !strings.Contains(a, "fieldSelector=metadata.namespace%21%3Dkube-node-lease") {
			t.Errorf("asked for the leases of all nodes: %s", a)
		}
	}
	if n := w.times("/api") + w.times("/apis"); n != 2 {
		t.Errorf("discovery took %d requests, want 2", n)
	}
	if n := len(w.asked); n != len(facts.Kinds)+3 {
		t.Errorf("%d requests for %d kinds: %s", n, len(facts.Kinds), strings.Join(w.asked, "\n"))
	}
}

func TestPages(t *testing.T) {
	w := &world{t: t}
	want := map[string]bool{}
	for i := range 2*pageSize + 1 {
		name := fmt.Sprintf("pod-%04d", i)
		w.add(pod("team-a", name))
		want[name] = true
	}
	f := gather(t, Options{Config: w.start()})
	got := map[string]bool{}
	for _, p := range f.Pods {
		got[p.Name] = true
	}
	if diff := cmp.Diff(want, got); diff != "" || len(f.Pods) != len(want) {
		t.Errorf("%d pods: %s", len(f.Pods), diff)
	}
	if n := w.times("/api/v1/pods"); n != 3 {
		t.Errorf("%d requests, want 3 pages", n)
	}
}

// A list that went stale between two pages is read again from its beginning, and nothing is there twice.
func TestStaleList(t *testing.T) {
	w := &world{t: t, say: func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("continue") == "" {
			return false
		}
		refuse(rw, http.StatusGone, metav1.StatusReasonExpired, "the provided continue parameter is too old")
		return true
	}}
	for i := range pageSize + 1 {
		w.add(pod("team-a", fmt.Sprintf("pod-%04d", i)))
	}
	f := gather(t, Options{Config: w.start()})
	if len(f.Pods) != pageSize+1 || !f.Sees("pods", "") {
		t.Errorf("%d pods, unseen %v", len(f.Pods), f.Unseen)
	}
}

func TestBusyServerIsAskedAgain(t *testing.T) {
	busy := 2
	w := full(t)
	w.say = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api/v1/pods" || busy == 0 {
			return false
		}
		busy--
		rw.Header().Set("Retry-After", "1")
		refuse(rw, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests")
		return true
	}
	if f := gather(t, Options{Config: w.start()}); len(f.Pods) != 1 || len(f.Unseen) > 0 {
		t.Errorf("%d pods, unseen %v", len(f.Pods), f.Unseen)
	}
}

// tenant may list what is in the namespace team-a, and nothing else.
func tenant(rw http.ResponseWriter, r *http.Request) bool {
	k, _, namespace, name := kindAt(r)
	if k == nil || namespace == "team-a" || k.Resource == "namespaces" && name == "team-a" {
		return false
	}
	return deny(rw, "tenant")
}

func TestTenantSeesOneNamespace(t *testing.T) {
	w := full(t)
	w.say = tenant
	w.add(pod("team-b", "theirs"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}})
	f := gather(t, Options{Config: w.start(), Namespace: "team-a"})
	for _, k := range facts.Kinds {
		own := k.Namespaced && k.Resource != "configmaps" || k.Resource == "namespaces"
		if f.Sees(k.Name(), "") {
			t.Errorf("%s: the whole cluster counts as seen", k.Name())
		}
		if got := f.Sees(k.Name(), "team-a"); k.Resource != "configmaps" && got != own {
			t.Errorf("%s in team-a: seen %v, want %v", k.Name(), got, own)
		}
		want := 0
		if own {
			want = 1
		}
		if got := len(k.List(&f.Objects)); got != want {
			t.Errorf("%s: %d objects, want %d", k.Name(), got, want)
		}
	}
	want := []facts.Unseen{{Resource: "pods", Except: "team-a", Reason: "forbidden"}, {Resource: "nodes", Reason: "forbidden"}, {Resource: "configmaps", Namespace: "kube-system", Reason: "forbidden"}}
	for _, u := range want {
		if !slices.Contains(f.Unseen, u) {
			t.Errorf("not said: %+v", u)
		}
	}
}

func TestTenantWithoutNamespaceSeesNothing(t *testing.T) {
	w := full(t)
	w.say = tenant
	f := gather(t, Options{Config: w.start()})
	for _, u := range f.Unseen {
		if u.Except != "" || u.Reason != "forbidden" {
			t.Errorf("said %+v", u)
		}
	}
	if len(f.Unseen) != len(facts.Kinds) || len(f.Pods) > 0 {
		t.Errorf("%d kinds unseen of %d", len(f.Unseen), len(facts.Kinds))
	}
}

// What nobody serves is refused too, to who has no rights, and is none the less known to be absent.
func TestTenantKnowsWhatIsNotServed(t *testing.T) {
	w := full(t)
	w.say, w.serves = tenant, map[string]string{"podgroups.scheduling.k8s.io": "", "resourceslices.resource.k8s.io": ""}
	f := gather(t, Options{Config: w.start(), Namespace: "team-a"})
	if !f.Sees("podgroups.scheduling.k8s.io", "") || !f.Sees("resourceslices.resource.k8s.io", "") || f.Sees("deviceclasses.resource.k8s.io", "") {
		t.Errorf("unseen %v", f.Unseen)
	}
}

// One kind that fails costs that kind alone.
func TestOneKindFails(t *testing.T) {
	for name, c := range map[string]struct {
		say  func(http.ResponseWriter, *http.Request)
		want string
	}{
		"unavailable": {func(rw http.ResponseWriter, _ *http.Request) {
			refuse(rw, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "the server is currently unable\nto handle the request")
		}, "the server is currently unable to handle the request"},
		"hangs":  {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "no answer in time"},
		"breaks": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "no answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			w := full(t)
			w.say = func(rw http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/jobs") || strings.Contains(r.URL.Path, "volcano") {
					return false
				}
				c.say(rw, r)
				return true
			}
			f := gather(t, Options{Config: w.start(), Patience: 500 * time.Millisecond})
			if diff := cmp.Diff([]facts.Unseen{{Resource: "jobs.batch", Reason: c.want}}, f.Unseen); diff != "" {
				t.Error(diff)
			}
			if len(f.Pods) != 1 || len(f.Jobs) != 0 || f.Sees("jobs.batch", "team-a") {
				t.Errorf("%d pods, %d jobs", len(f.Pods), len(f.Jobs))
			}
		})
	}
}

func TestDeadlineLeavesWhatWasRead(t *testing.T) {
	w := full(t)
	w.say = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/api/v1/events" {
			<-r.Context().Done()
		}
		return false
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	f, err := Gather(ctx, Options{Config: w.start()})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]facts.Unseen{{Resource: "events", Reason: "not read in time"}}, f.Unseen); diff != "" || len(f.Pods) != 1 {
		t.Errorf("%d pods: %s", len(f.Pods), diff)
	}
}

func TestGivingUpIsAnError(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	w := full(t)
	w.say = func(http.ResponseWriter, *http.Request) bool { stop(); return false }
	if _, err := Gather(ctx, Options{Config: w.start()}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestNoAnswerAtAll(t *testing.T) {
	everywhere := func(say func(http.ResponseWriter)) func(http.ResponseWriter, *http.Request) bool {
		return func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/version" {
				return false
			}
			say(rw)
			return true
		}
	}
	unknown := "does not know who you are: log in again"
	for name, c := range map[string]struct {
		say  func(http.ResponseWriter, *http.Request) bool
		want string
	}{
		"nobody knows the token": {func(rw http.ResponseWriter, _ *http.Request) bool {
			refuse(rw, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
			return true
		}, unknown},
		"the token ends meanwhile": {everywhere(func(rw http.ResponseWriter) {
			refuse(rw, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
		}), unknown},
		"no token":             {everywhere(func(rw http.ResponseWriter) { deny(rw, "system:anonymous") }), unknown},
		"no storage":           {everywhere(func(rw http.ResponseWriter) { refuse(rw, 500, metav1.StatusReasonInternalError, "etcd is gone") }), "nothing can be read"},
		"hangs from the start": {func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }, "cannot reach"},
	} {
		t.Run(name, func(t *testing.T) {
			w := full(t)
			w.say = c.say
			cfg := w.start()
			_, err := Gather(t.Context(), Options{Config: cfg, Namespace: "team-a", Patience: 200 * time.Millisecond})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), cfg.Host) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, c.want)
			}
		})
	}
	_, err := Gather(t.Context(), Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}})
	if want := "cannot reach the API server at http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused; check the address, and that the cluster runs"; err == nil || err.Error() != want {
		t.Errorf("nobody listens: got %v, want %s", err, want)
	}
}

// A server that hides its version from the caller is read all the same.
func TestVersionMayBeHidden(t *testing.T) {
	w := full(t)
	w.version = http.StatusForbidden
	if f := gather(t, Options{Config: w.start()}); f.Kubernetes != "" || len(f.Pods) != 1 {
		t.Errorf("version %q, %d pods", f.Kubernetes, len(f.Pods))
	}
}

func TestVersionsOfKinds(t *testing.T) {
	w := full(t)
	w.serves = map[string]string{
		"workloads.kueue.x-k8s.io": "v1beta1", "nodepools.karpenter.sh": "", "nodeclaims.karpenter.sh": "",
		"podgroups.scheduling.k8s.io": "", "resourceclaims.resource.k8s.io": "v1beta1",
	}
	w.stale = []string{"ray.io"}
	f := gather(t, Options{Config: w.start()})
	if n := len(f.Foreign["Workload.kueue.x-k8s.io"]); n != 1 {
		t.Errorf("%d Workloads in an older version, want 1", n)
	}
	for name, want := range map[string]bool{
		"workloads.kueue.x-k8s.io": true,
		"nodepools.karpenter.sh":   true, "podgroups.scheduling.k8s.io": true, // nobody serves them: there are none
		"resourceclaims.resource.k8s.io": false, "rayjobs.ray.io": false,
	} {
		if got := f.Sees(name, ""); got != want {
			t.Errorf("%s: seen %v, want %v: %v", name, got, want, f.Unseen)
		}
	}
	if n := w.times("/apis/karpenter.sh/v1/nodepools"); n > 0 {
		t.Errorf("asked %d times for a kind that is not served", n)
	}
	if len(f.PodGroups)+len(f.ResourceClaims) > 0 {
		t.Error("objects of kinds that are not served")
	}
}

// Nobody who could not learn what is served takes the rest for absent.
func TestDiscoveryFails(t *testing.T) {
	w := full(t)
	w.say = func(rw http.ResponseWriter, r *http.Request) bool {
		return (r.URL.Path == "/apis" || r.URL.Path == "/api") && deny(rw, "tenant")
	}
	f := gather(t, Options{Config: w.start()})
	for _, k := range facts.Kinds {
		if f.Sees(k.Name(), "") == k.Foreign {
			t.Errorf("%s: seen %v", k.Name(), !k.Foreign)
		}
	}
	w.serves = map[string]string{"resourceclaims.resource.k8s.io": "v1beta1"}
	if f := gather(t, Options{Config: w.start()}); f.Sees("resourceclaims.resource.k8s.io", "") {
		t.Error("a kind that may be served in another version counts as seen")
	}
}
