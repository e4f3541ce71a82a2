package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

func lastSlash(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '/' {
			return i
		}
	}
	return -1
}
