package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/fault"
)

// asking is an API server with Machines, and a provider that answers them until it is killed.
type asking struct {
	*controller
	t        *testing.T
	machines map[string]*v1alpha1.Machine
	version  int
	die      func() bool
	dead     bool
	kills    int
	store    cache.Store
	shown    map[string]v1alpha1.MachinePhase // by UID: what was once said
}

func newAsking(t *testing.T) *asking {
	x := &asking{t: t, machines: make(map[string]*v1alpha1.Machine), shown: make(map[string]v1alpha1.MachinePhase), die: func() bool { return false }}
	x.fresh(nil)
	return x
}

// fresh starts a provider that knows nothing but what the API server has.
func (x *asking) fresh(failing []fault.Launch) {
	client, err := newPoolClient(&rest.Config{Host: "http://machines.invalid", Transport: roundTrip(x.patch)})
	if err != nil {
		x.t.Fatal(err)
	}
	x.store, x.dead = cache.NewStore(cache.MetaNamespaceKeyFunc), false
	x.controller = &controller{pools: client, log: slog.New(slog.DiscardHandler), launches: newLaunches(x.store), faults: &faults{launches: failing}}
	for name := range x.machines {
		x.see(name)
	}
}

// see brings the local copy of one machine up to date.
func (x *asking) see(name string) {
	m, there := x.machines[name]
	err := x.store.Delete(&v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if there {
		err = errors.Join(err, x.store.Add(m.DeepCopy()))
	}
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *asking) ask(name string) {
	x.version++
	m := &v1alpha1.Machine{Spec: v1alpha1.MachineSpec{Pool: "p", Zone: "a", CapacityType: v1alpha1.CapacityOnDemand}}
	m.Name, m.UID, m.ResourceVersion = name, types.UID(fmt.Sprint("uid-", x.version)), fmt.Sprint(x.version)
	x.machines[name] = m
}

// patch is the API server.
func (x *asking) patch(req *http.Request) (*http.Response, error) {
	if x.dead = x.dead || x.die(); x.dead {
		return nil, errors.New("killed")
	}
	name := strings.TrimSuffix(strings.TrimPrefix(req.URL.Path, "/apis/berth.dev/v1alpha1/machines/"), "/status")
	var body v1alpha1.Machine
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		return nil, err
	}
	code, m := http.StatusOK, x.machines[name]
	switch {
	case m == nil:
		code = http.StatusNotFound
	case body.UID != m.UID || body.ResourceVersion != "" && body.ResourceVersion != m.ResourceVersion:
		code = http.StatusConflict
	default:
		if before := x.shown[string(m.UID)]; before != "" && before != body.Status.Phase {
			x.t.Errorf("%s was %s, and now is %s", name, before, body.Status.Phase)
		}
		x.version++
		m.Status, m.ResourceVersion, x.shown[string(m.UID)] = body.Status, fmt.Sprint(x.version), body.Status.Phase
	}
	if x.dead = x.die(); x.dead {
		return nil, errors.New("killed")
	}
	text := "{}"
	if code != http.StatusOK {
		text = fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q}`, code, map[int]string{404: "NotFound", 409: "Conflict"}[code])
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text))}, nil
}

func (x *asking) given() (n int) {
	for _, m := range x.machines {
		if m.Status.Phase == v1alpha1.MachineLaunched {
			n++
		}
	}
	return n
}

// TestProviderKilledAtAnyMoment kills the provider 1,000 times, before and after each of its answers, while Machines come, change and go
// and its local copies lag behind. It never gives more machines than there are, never takes an answer back, and leaves no Machine without
// one.
func TestProviderKilledAtAnyMoment(t *testing.T) {
	const available = 3
	failing := []fault.Launch{{Pool: "p", Zone: "a", Error: v1alpha1.ErrorInsufficientInstanceCapacity, Available: available}}
	r := rand.New(rand.NewPCG(20, 2))
	x := newAsking(t)
	now := time.Date(2026, 11, 19, 0, 0, 0, 0, time.UTC)
	look := func(stale bool) {
		for name := range x.machines {
			if !stale || r.IntN(2) == 0 {
				x.see(name)
			}
		}
		x.answerLaunches(t.Context(), now)
		if x.dead {
			x.kills++
			x.fresh(failing)
		}
		if n := x.given(); n > available {
			t.Fatalf("%d machines of %d are given", n, available)
		}
	}
	x.fresh(failing)
	for turn := 0; x.kills < 1000 && !t.Failed(); turn++ {
		at := r.IntN(6)
		x.die = func() bool { at--; return at < 0 }
		name := fmt.Sprintf("m%d", r.IntN(8))
		switch m := x.machines[name]; {
		case m == nil:
			x.ask(name)
		case r.IntN(2) == 0: // somebody marks it
			x.version++
			m.Annotations, m.ResourceVersion = map[string]string{"seen": fmt.Sprint(turn)}, fmt.Sprint(x.version)
		default:
			delete(x.machines, name)
			x.see(name)
		}
		look(true)
		if turn%20 == 0 {
			x.die = func() bool { return false }
			look(false)
			for name, m := range x.machines {
				if m.Status.Phase == "" {
					t.Fatalf("%s has no answer", name)
				}
			}
		}
	}
}

// TestUnansweredMachinesAreNews: whatever changes in a Machine that has no answer has the provider look again, because the answer it was
// about to give is for what was there before.
func TestUnansweredMachinesAreNews(t *testing.T) {
	l := newLaunches(cache.NewStore(cache.MetaNamespaceKeyFunc))
	e := l.events()
	before, after := asked("m", "a", 0, ""), asked("m", "a", 0, "")
	after.Annotations = map[string]string{"seen": "yes"}
	e.OnUpdate(before, after)
	if len(l.news()) != 1 {
		t.Fatal("a Machine without an answer changed, and nobody looks")
	}
	<-l.news()
	before.Status.Phase, after.Status.Phase = v1alpha1.MachineLaunched, v1alpha1.MachineLaunched
	e.OnUpdate(before, after)
	if len(l.news()) != 0 {
		t.Error("since when a machine is idle is news")
	}
}
