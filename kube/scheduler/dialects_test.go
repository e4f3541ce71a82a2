package scheduler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/all"
)

// A dialect costs nothing where it is not used: no kind of another project is listed or watched that is not served, nor are priority
// classes, which dialects alone look up; and of a project whose first kind is not served nothing is, unless it was asked for.
func TestDialectsThatAreNotUsed(t *testing.T) {
	for name, c := range map[string]struct {
		served []string // group/version/kind
		asked  []string
		want   []string // resources that are listed or watched
	}{
		"nothing is served":                 {},
		"asked for, and not served":         {asked: []string{"kai"}, want: []string{"priorityclasses"}},
		"one kind of several":               {served: []string{"scheduling.volcano.sh/v1beta1/Queue"}, want: []string{"priorityclasses", "queues.scheduling.volcano.sh"}},
		"not the first":                     {served: []string{"scheduling.volcano.sh/v1beta1/PodGroup"}},
		"not the first, asked for":          {served: []string{"scheduling.volcano.sh/v1beta1/PodGroup"}, asked: []string{"volcano"}, want: []string{"podgroups.scheduling.volcano.sh", "priorityclasses"}},
		"another version than is read":      {served: []string{"kueue.x-k8s.io/v1alpha2/ClusterQueue"}},
		"kinds of the same name in a group": {served: []string{"example.com/v1/Queue", "example.com/v1/PodGroup"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, node("n1", "r1", 1))
				lists := make(map[schema.GroupVersionResource]string)
				for _, d := range all.Dialects() {
					for _, k := range d.Kinds() {
						lists[k.GroupVersion().WithResource(k.Plural)] = k.Kind + "List"
					}
				}
				for _, at := range c.served {
					gv, kind := at[:lastSlash(at)], at[lastSlash(at)+1:]
					w.client.Resources = append(w.client.Resources, &metav1.APIResourceList{GroupVersion: gv, APIResources: []metav1.APIResource{{Kind: kind}}})
				}
				var mu sync.Mutex
				var got []string
				note := func(a clienttesting.Action) {
					mu.Lock()
					defer mu.Unlock()
					if r := a.GetResource(); (a.GetVerb() == "list" || a.GetVerb() == "watch") && (lists[r] != "" || r.Resource == "priorityclasses") {
						got = append(got, r.GroupResource().String())
					}
				}
				foreign := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
				foreign.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) { note(a); return false, nil, nil })
				w.client.PrependReactor("list", "priorityclasses", func(a clienttesting.Action) (bool, runtime.Object, error) { note(a); return false, nil, nil })
				w.start(func(o *Options) { o.foreign, o.Dialects = foreign, c.asked })
				mu.Lock()
				defer mu.Unlock()
				slices.Sort(got)
				for i := range got {
					if got[i] == "priorityclasses.scheduling.k8s.io" {
						got[i] = "priorityclasses"
					}
				}
				if diff := cmp.Diff(c.want, slices.Compact(got)); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// A namespace in which nothing can be written keeps no other from having its objects written.
func TestStatusesOfOtherNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1))
		lists := make(map[schema.GroupVersionResource]string)
		for _, k := range all.Find("kueue").Kinds() {
			lists[k.GroupVersion().WithResource(k.Plural)] = k.Kind + "List"
			w.client.Resources = append(w.client.Resources, &metav1.APIResourceList{GroupVersion: k.GroupVersion().String(), APIResources: []metav1.APIResource{{Kind: k.Kind}}})
		}
		foreign := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
		var mu sync.Mutex
		made := make(map[string]int)
		foreign.PrependReactor("create", "workloads", func(a clienttesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			made[a.GetNamespace()]++
			mu.Unlock()
			switch a.GetNamespace() {
			case "hangs":
				time.Sleep(statusEvery)
				return true, nil, context.DeadlineExceeded
			case "is-refused":
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "workloads"}, "x", errors.New("no"))
			}
			return false, nil, nil
		})
		queued := func(namespace, name string) {
			p := in(namespace, pod(name, 1))
			p.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "main"}
			w.add(p)
		}
		for i := range mostForeignWrites + 1 {
			if i < 50 {
				queued("hangs", fmt.Sprint("p", i))
			}
			queued("is-refused", fmt.Sprint("p", i))
		}
		queued("well", "p")
		w.start(func(o *Options) { o.foreign = foreign })
		w.after(30 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if made["well"] == 0 || made["hangs"] > 5 {
			t.Errorf("requests by namespace %v", made)
		}
	})
}

// Whether a dialect's own controller runs is known of its lease. An API server that fails, or has just started and refuses what it will
// allow, says nothing of that: what was known stays. One that goes on refusing does, since two must not let the same workload in.
func TestLeaseOfAnothersControllerCannotBeRead(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "kueue", errors.New("no"))
	failed := apierrors.NewInternalError(errors.New("no"))
	for name, c := range map[string]struct {
		err      error
		from, to time.Duration // since the start
		want     bool          // Berth has stopped to let workloads in
	}{
		"refused at first":   {refused, 0, 5 * time.Second, false},
		"refused for a time": {refused, time.Minute, time.Minute + awaken - rivalEvery, false},
		"refused for ever":   {refused, time.Minute, time.Hour, true},
		"failed at first":    {failed, 0, 5 * time.Second, false},
		"failed for a time":  {failed, time.Minute, 3 * time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, node("n1", "r1", 1))
				lists := make(map[schema.GroupVersionResource]string)
				for _, k := range all.Find("kueue").Kinds() {
					lists[k.GroupVersion().WithResource(k.Plural)] = k.Kind + "List"
					w.client.Resources = append(w.client.Resources, &metav1.APIResourceList{GroupVersion: k.GroupVersion().String(), APIResources: []metav1.APIResource{{Kind: k.Kind}}})
				}
				begin := time.Now()
				w.client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
					at := time.Since(begin)
					return c.from <= at && at < c.to, nil, c.err
				})
				var log bytes.Buffer
				w.start(func(o *Options) {
					o.foreign = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
					o.Log = slog.New(slog.NewTextHandler(&log, nil))
				})
				w.after(5 * time.Minute)
				w.stopAll()
				if got := strings.Contains(log.String(), "berth=false"); got != c.want {
					t.Errorf("Berth stopped to let workloads in: %t, want %t\n%s", got, c.want, log.String())
				}
			})
		})
	}
}

func lastSlash(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '/' {
			return i
		}
	}
	return -1
}

// An API server that has just started refuses to show anybody anything. Kinds of which pods are made are watched soon after it has read
// the rights; one who never gets them is told once.
func TestKindsThatAreRefusedAtFirst(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "objects"}, "", errors.New("no"))
	for name, c := range map[string]struct {
		refuses time.Duration // from the start
		within  time.Duration // it is looked after so long
		want    bool          // they are watched
	}{
		"for three seconds": {3 * time.Second, 10 * time.Second, true},
		"for a minute":      {time.Minute, 2 * time.Minute, true},
		"for ever":          {24 * time.Hour, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, node("n1", "r1", 1))
				lists, kinds := make(map[schema.GroupVersionResource]string), make(map[string]bool)
				served := make(map[string]*metav1.APIResourceList)
				for _, d := range all.Readers() {
					if _, maker := d.(dialect.Maker); !maker {
						continue
					}
					for _, k := range d.Kinds() {
						kinds[k.Name()] = true
						lists[k.GroupVersion().WithResource(k.Plural)] = k.Kind + "List"
						at := k.GroupVersion().String()
						if served[at] == nil {
							served[at] = &metav1.APIResourceList{GroupVersion: at}
							w.client.Resources = append(w.client.Resources, served[at])
						}
						served[at].APIResources = append(served[at].APIResources, metav1.APIResource{Kind: k.Kind})
					}
				}
				foreign := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
				begin := time.Now()
				foreign.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
					return time.Since(begin) < c.refuses, nil, refused
				})
				var log bytes.Buffer
				w.start(func(o *Options) { o.foreign, o.Log = foreign, slog.New(slog.NewTextHandler(&log, nil)) })
				w.after(c.within)
				w.stopAll()
				watched, told := strings.Count(log.String(), "msg=watching dialect="), strings.Count(log.String(), "lack of rights")
				if told != len(kinds) || (watched == len(kinds)) != c.want {
					t.Errorf("%d kinds are watched and %d told of; %d are served\n%s", watched, told, len(kinds), log.String())
				}
			})
		})
	}
}
