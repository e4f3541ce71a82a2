package scheduler

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// An API server that has just started may refuse everything for a moment. That ends no scheduler.
func TestAServerThatIsNotAwakeYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 1))
		began := time.Now()
		w.client.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
			if time.Since(began) < 10*time.Second {
				return true, nil, apierrors.NewForbidden(podKind, "", errors.New("not yet"))
			}
			return false, nil, nil
		})
		w.start()
		w.after(15 * time.Second)
		if got := w.at("a"); got[0] != "n1" {
			t.Errorf("a is on %q", got[0])
		}
	})
}

// On an API server that serves none of the kinds that came late, pods and gangs are scheduled all the same; each kind is named once, with
// what holds without it, and nothing of them is listed or watched.
func TestKindsThatAreNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 2), pod("a", 1))
		w.client.Resources = nil
		var log bytes.Buffer
		w.start(func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		if got := w.at("a"); got[0] != "n1" {
			t.Errorf("a is on %q", got[0])
		}
		for _, k := range sometimes {
			if n := strings.Count(log.String(), k.version+" "+k.kind); n != 1 {
				t.Errorf("%s is named %d times in %s", k.kind, n, log.String())
			}
		}
		if strings.Contains(log.String(), "level=WARN") || strings.Contains(log.String(), "level=ERROR") {
			t.Error(log.String())
		}
		for _, a := range w.client.Actions() {
			if g := a.GetResource().Group; (a.GetVerb() == "list" || a.GetVerb() == "watch") && (g == "resource.k8s.io" || g == "scheduling.k8s.io") {
				t.Errorf("%s of %s", a.GetVerb(), a.GetResource())
			}
		}
	})
}

// An object that was replaced by one of its name while the watch was cut is gone: controllers are known by their UIDs, and a gang would wait
// for the pods of both.
func TestReplacedWhileTheWatchIsCut(t *testing.T) {
	var got []string
	h := handler(func(p *corev1.Pod) { got = append(got, "set "+string(p.UID)) }, func(p *corev1.Pod) { got = append(got, "gone "+string(p.UID)) })
	a, b := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "b"}}
	h.OnAdd(a, false)
	h.OnUpdate(a, a)
	h.OnUpdate(a, b)
	h.OnDelete(cache.DeletedFinalStateUnknown{Obj: b})
	if diff := cmp.Diff([]string{"set a", "set a", "gone a", "set b", "gone b"}, got); diff != "" {
		t.Error(diff)
	}
}
