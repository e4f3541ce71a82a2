package dialect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTake(t *testing.T) {
	type leaf struct {
		Quota *float64           `json:"quota"`
		Cap   *resource.Quantity `json:"cap"`
	}
	type spec struct {
		Name string          `json:"name"`
		By   map[string]leaf `json:"by"`
		Of   []leaf          `json:"of"`
	}
	tree := map[string]any{
		"name": "a", "colour": "red", "nothing": "", "none": []any{},
		"by": map[string]any{"gpu": map[string]any{"quota": 0.0, "cap": "8", "odd": true}},
		"of": []any{map[string]any{"quota": 2.0}, map[string]any{"even": 1.0}},
	}
	var got spec
	unread := Take(tree, "spec", &got)
	if diff := cmp.Diff([]string{"spec.by.gpu.odd", "spec.colour", "spec.of[1].even"}, unread); diff != "" {
		t.Error(diff)
	}
	if got.Name != "a" || *got.By["gpu"].Quota != 0 || got.By["gpu"].Cap.String() != "8" || *got.Of[0].Quota != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestTakeAnotherType(t *testing.T) {
	var got struct {
		Min int32 `json:"min"`
	}
	unread := Take(map[string]any{"min": "many"}, "spec", &got)
	if diff := cmp.Diff([]string{"spec.min (want a whole number)"}, unread); diff != "" {
		t.Error(diff)
	}
}

// Every value that cannot be taken is told of, and none keeps others from being taken: a bad amount does not have a limit beside it forgotten.
func TestTakeManyOfAnotherType(t *testing.T) {
	type leaf struct {
		Quota *float64                     `json:"quota"`
		Cap   map[string]resource.Quantity `json:"cap"`
		At    *metav1.Duration             `json:"at"`
	}
	var got struct {
		On    *bool           `json:"on"`
		Count int32           `json:"count"`
		By    map[string]leaf `json:"by"`
		Of    []leaf          `json:"of"`
		Any   any             `json:"any"`
		Name  string          `json:"name"`
	}
	unread := Take(map[string]any{
		"any": map[string]any{"x": int64(1)}, "on": "true", "count": 1e30, "name": "kept",
		"by": map[string]any{"gpu": map[string]any{"quota": "8", "cap": map[string]any{"a": "8 GPUs", "b": "2", "c": nil, "d": []any{}}, "at": "soon"}, "cpu": "4", "memory": map[string]any{"quota": int64(3)}},
		"of": []any{"x", map[string]any{"quota": 2.5}, []any{}, nil},
	}, "spec", &got)
	want := []string{
		"spec.by.cpu (want an object)", "spec.by.gpu.at (want a duration)", "spec.by.gpu.cap.a (want an amount)", "spec.by.gpu.cap.d (want an amount)", "spec.by.gpu.quota (want a number)",
		"spec.count (want a whole number)", "spec.of[0] (want an object)", "spec.of[2] (want an object)", "spec.on (want true or false)",
	}
	if diff := cmp.Diff(want, unread); diff != "" {
		t.Error(diff)
	}
	gpu := got.By["gpu"]
	if amount := gpu.Cap["b"]; got.Name != "kept" || amount.String() != "2" || len(gpu.Cap) != 1 || gpu.Quota != nil || len(got.By) != 2 || *got.By["memory"].Quota != 3 || len(got.Of) != 4 || *got.Of[1].Quota != 2.5 || got.On != nil || got.Count != 0 || got.Any == nil {
		t.Errorf("got %+v", got)
	}
}

// A tree that is no object at all is told of.
func TestTakeNoObject(t *testing.T) {
	for _, tree := range []any{"x", int64(3), []any{}, true} {
		var got struct {
			A string `json:"a"`
		}
		if diff := cmp.Diff([]string{"spec (want an object)"}, Take(tree, "spec", &got)); diff != "" {
			t.Errorf("%v: %s", tree, diff)
		}
	}
}

func TestTakeBounds(t *testing.T) {
	tree := make(map[string]any)
	for i := range 100 {
		tree[strings.Repeat("x", i+1)] = true
	}
	var got struct{}
	if unread := Take(tree, "spec", &got); len(unread) != MaxUnread+1 || unread[MaxUnread] != "84 more" {
		t.Errorf("got %v", unread)
	}
}

func TestReader(t *testing.T) {
	pod := &metav1.ObjectMeta{Labels: map[string]string{"a.dev/x": " 1 ", "other/y": "2"}, Annotations: map[string]string{"sub.a.dev/z": "3", "a.dev/w": "4"}}
	owner := &metav1.ObjectMeta{Labels: map[string]string{"a.dev/x": "5", "a.dev/v": "6"}}
	r := NewReader(pod, owner)
	if got := r.Label("a.dev/x"); got != "1" {
		t.Errorf("x is %q", got)
	}
	if got := r.Either("a.dev/v"); got != "6" {
		t.Errorf("v is %q", got)
	}
	r.Refuse("a.dev/v", "6", "a name")
	if diff := cmp.Diff([]string{"a.dev/v is 6: want a name", "a.dev/w", "sub.a.dev/z"}, r.Unread([]string{"a.dev"})); diff != "" {
		t.Error(diff)
	}
}

// Keys that ask a scheduler of which there is no dialect are told apart from those that a dialect reads and from those that ask nobody.
func TestUnspoken(t *testing.T) {
	for key, want := range map[string]bool{
		"yunikorn.apache.org/queue": true, "slurmjob.slinky.slurm.net/partition": true, "gang.scheduling.koordinator.sh/name": true,
		"nvidia.com/kai-scheduler-queue": true, "example.com/gang": true, "scheduling.example.com/zone": true, "example.com/my_pod-group_name": true,
		"kai.scheduler/queue": false, "scheduling.volcano.sh/queue-name": false, "hami.io/gpu-scheduler-policy": false, "scheduling.x-k8s.io/pod-group": false,
		"kueue.x-k8s.io/pod-group-name": false, "batch.kubernetes.io/scheduling": false, "berth.dev/gang": false, "ray.io/gang-scheduling-enabled": false,
		"example.com/gangway": false, "velero.io/schedule-name": false, "gang": false,
	} {
		if Unspoken(key) != want {
			t.Errorf("%s: %v", key, !want)
		}
	}
}
