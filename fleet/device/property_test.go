package device

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/fleet/gpu"
)

// world drives a Manager with random events and checks after each that its promises hold. It
// keeps its own books of who was given what.
type world struct {
	m         *Manager
	now       time.Time
	books     map[types.UID]map[string][]string // pod -> container -> UUIDs
	shareable map[types.UID]bool                // pods with init containers: they may share with themselves
	unhealthy map[string]bool
}

func TestManagerKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups := []gpu.Group{
			{Model: model("h100"), Count: rapid.IntRange(0, 8).Draw(t, "h100"), NVLink: rapid.Bool().Draw(t, "nvlink")},
			{Model: model("t4"), Count: rapid.IntRange(0, 3).Draw(t, "t4")},
		}
		cfg := h100(0)
		cfg.Devices = gpu.Devices("node", groups)
		cfg.HostDriver = rapid.Bool().Draw(t, "host driver")
		w := &world{
			m: New(cfg), now: start, books: map[types.UID]map[string][]string{},
			shareable: map[types.UID]bool{}, unhealthy: map[string]bool{},
		}
		t.Repeat(map[string]func(*rapid.T){
			"allocate": w.allocate,
			"release":  w.release,
			"restore":  w.restore,
			"health":   w.health,
			"stack":    w.stack,
			"time":     func(t *rapid.T) { w.now = w.now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "s")) * time.Second) },
			"":         w.check,
		})
	})
}

func (w *world) who(t *rapid.T) (types.UID, string) {
	return types.UID(rapid.SampledFrom([]string{"p1", "p2", "p3", "p4"}).Draw(t, "pod")),
		rapid.SampledFrom([]string{"a", "b"}).Draw(t, "container")
}

func (w *world) allocate(t *rapid.T) {
	uid, container := w.who(t)
	n := rapid.IntRange(0, 6).Draw(t, "n")
	call := w.m.Allocate
	if rapid.Bool().Draw(t, "init") {
		call, w.shareable[uid] = w.m.AllocateInit, true
	}
	had, held := w.books[uid][container]
	got, err := call(uid, container, Resource, n)
	switch {
	case err != nil:
		return
	case held && !slices.Equal(had, uuids(got)):
		t.Fatalf("%s/%s was given %v, and now %v", uid, container, had, uuids(got))
	case len(got) != 0 && len(got) != n:
		t.Fatalf("asked for %d, got %d", n, len(got))
	case len(got) > 0:
		for _, u := range uuids(got) {
			if !held && w.unhealthy[u] && !w.shareable[uid] {
				t.Fatalf("%s is unhealthy and was given to %s", u, uid)
			}
		}
		w.note(uid, container, uuids(got))
	}
	again, err := call(uid, container, Resource, n)
	if diff := cmp.Diff(got, again); diff != "" || err != nil {
		t.Fatalf("not idempotent: %v\n%s", err, diff)
	}
}

func (w *world) note(uid types.UID, container string, ids []string) {
	if w.books[uid] == nil {
		w.books[uid] = map[string][]string{}
	}
	w.books[uid][container] = ids
}

func (w *world) release(t *rapid.T) {
	uid, _ := w.who(t)
	w.m.Release(uid)
	delete(w.books, uid)
	delete(w.shareable, uid)
	for _, c := range []string{"a", "b"} {
		if got := w.m.Held(uid, c); got != nil {
			t.Fatalf("%s/%s still holds %v", uid, c, indices(got))
		}
	}
}

func (w *world) restore(t *rapid.T) {
	uid, container := w.who(t)
	var ids []string
	for _, d := range w.m.Devices() {
		if rapid.IntRange(0, 3).Draw(t, "take") == 0 {
			ids = append(ids, d.UUID)
		}
	}
	if w.m.Restore(uid, container, Resource, ids) == nil && len(ids) > 0 {
		w.note(uid, container, ids)
		w.shareable[uid] = true // a pod's record may name a device under its init container too
	}
}

func (w *world) health(t *rapid.T) {
	for _, d := range w.m.Devices() {
		ok := rapid.IntRange(0, 4).Draw(t, "ok") > 0
		w.m.SetHealthy(d.UUID, ok)
		w.unhealthy[d.UUID] = !ok
	}
}

func (w *world) stack(t *rapid.T) {
	pods := fullStack()
	for i := range pods {
		pods[i].Ready = rapid.IntRange(0, 3).Draw(t, "ready") > 0
	}
	w.m.SetStack(pods[rapid.IntRange(0, 3).Draw(t, "from"):], w.now)
}

func (w *world) check(t *rapid.T) {
	owner := map[string]string{}
	for uid, containers := range w.books {
		for c, ids := range containers {
			if diff := cmp.Diff(ids, uuids(w.m.Held(uid, c))); diff != "" {
				t.Fatalf("%s/%s: %s", uid, c, diff)
			}
			for _, id := range ids {
				me := fmt.Sprint(uid, "/", c)
				if w.shareable[uid] {
					me = string(uid)
				}
				if o, taken := owner[id]; taken && o != me {
					t.Fatalf("%s is under %s and %s", id, o, me)
				}
				owner[id] = me
			}
		}
	}
	if len(owner) != len(w.m.owner) {
		t.Fatalf("%d devices are held, and %d marked as taken", len(owner), len(w.m.owner))
	}
	w.checkAdvertisement(t)
}

func (w *world) checkAdvertisement(t *rapid.T) {
	whole := w.m.Advertise(w.now)
	var a Offer // of the one resource there is, while it is known
	if len(whole.Resources) > 0 {
		a = whole.Resources[0]
	}
	total, healthy := int64(len(w.m.Devices())), int64(0)
	for _, d := range w.m.Devices() {
		if !w.unhealthy[d.UUID] {
			healthy++
		}
	}
	switch {
	case a.Allocatable > a.Capacity:
		t.Fatalf("allocatable %d of %d", a.Allocatable, a.Capacity)
	case a.Connected && (a.Capacity != total || a.Allocatable != healthy):
		t.Fatalf("registered with %d/%d, hardware is %d/%d", a.Allocatable, a.Capacity, healthy, total)
	case !a.Connected && a.Allocatable != 0:
		t.Fatalf("no plugin and %d allocatable", a.Allocatable)
	case !a.Connected && (a.Capacity != 0) == whole.Changes.IsZero():
		t.Fatalf("capacity %d changes at %v", a.Capacity, whole.Changes)
	case !whole.Changes.IsZero() && !whole.Changes.After(w.now):
		t.Fatalf("changes at %v, and it is %v", whole.Changes, w.now)
	}
}

func uuids(devices []gpu.Device) []string {
	var out []string
	for _, d := range devices {
		out = append(out, d.UUID)
	}
	return out
}
