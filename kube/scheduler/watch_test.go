package scheduler

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
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
