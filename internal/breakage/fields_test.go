package main

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func pod() map[string]any {
	return decode([]byte(`{
		"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running"},
		"metadata": {"name": "a", "uid": "1", "labels": {"berth.dev/queue": "x"}},
		"spec": {"hostNetwork": true, "containers": [{"name": "c", "resources": {"limits": {"cpu": "500m"}}}], "priority": 7}
	}`))
}

func TestFieldsAreThoseOfTheLiveObject(t *testing.T) {
	var got []string
	for _, p := range fieldsOf(pod()) {
		got = append(got, p.String())
	}
	want := []string{
		"metadata.labels", `metadata.labels["berth.dev/queue"]`,
		"spec.containers", "spec.containers[0]", "spec.containers[0].name", "spec.containers[0].resources", "spec.containers[0].resources.limits", "spec.containers[0].resources.limits.cpu",
		"spec.hostNetwork", "spec.priority",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEveryWayBreaksOneField(t *testing.T) {
	seen := map[string][]string{"name": {"c", "other"}, "cpu": {"2"}, "berth.dev/queue": {"y"}}
	for _, p := range fieldsOf(pod()) {
		v, _ := get(pod(), p)
		for _, way := range ways(v, p) {
			before := pod()
			after, c, ok := breakField(before, p, way, seen, rand.New(rand.NewPCG(1, 1)))
			if !ok {
				t.Errorf("%s %s: nothing was done", p, way)
				continue
			}
			if diff := cmp.Diff(pod(), before); diff != "" {
				t.Errorf("%s %s changed the object itself: %s", p, way, diff)
			}
			if equal(before, after) {
				t.Errorf("%s %s: the object is the same after %v", p, way, c)
			}
			restored := clone(after)
			switch way {
			case rename:
				put(restored, append(append(path{}, p[:len(p)-1]...), c.key), nil, true)
				put(restored, p, c.old, false)
			case remove:
				if _, item := index(p[len(p)-1]); item {
					continue
				}
				put(restored, p, c.old, false)
			default:
				put(restored, p, c.old, false)
			}
			if diff := cmp.Diff(before, restored); diff != "" {
				t.Errorf("%s %s changed more than the field: %s", p, way, diff)
			}
		}
	}
}

func TestAReplayDrawsTheSame(t *testing.T) {
	lists := func() map[string][]candidate {
		return map[string][]candidate{"A": {{alias: "1"}, {alias: "2"}, {alias: "3"}}, "B": {{alias: "4"}}}
	}
	draw := func() []candidate { return interleave(lists(), rand.New(rand.NewPCG(7, 0))) }
	if diff := cmp.Diff(draw(), draw(), cmp.AllowUnexported(candidate{}, kind{})); diff != "" {
		t.Error(diff)
	}
	for i, c := range draw() {
		if c.index != i {
			t.Errorf("the candidate at %d has index %d", i, c.index)
		}
	}
}

func TestTruthFollowsFromTheBrokenField(t *testing.T) {
	of := func(k string) object { return object{kind: kind{name: k}} }
	for _, c := range []struct {
		kind  string
		path  path
		layer string
	}{
		{"Deployment", path{"spec", "template", "spec", "nodeSelector", "zone"}, "L3"},
		{"Pod", path{"spec", "nodeSelector", "zone"}, "L3"},
		{"Job", path{"spec", "template", "spec", "containers", "[0]", "image"}, "L4"},
		{"Pod", path{"spec", "containers", "[0]", "command"}, "L4"},
		{"DaemonSet", path{"spec", "template", "spec", "containers", "[0]", "image"}, "L2"},
		{"BerthQueue", path{"spec", "parent"}, "L3"},
		{"Secret", path{"data", "key"}, "L4"},
	} {
		if got := truthOf(of(c.kind), c.path); len(got.layers) != 1 || got.layers[0] != c.layer {
			t.Errorf("%s %s: layers %v, want %s", c.kind, c.path, got.layers, c.layer)
		}
	}
}
