package convert

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
)

func keyed(annotations, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p", Annotations: annotations, Labels: labels}}
}

// with gives the pod the condition.
func with(p *corev1.Pod, status corev1.ConditionStatus, text string) *corev1.Pod {
	p.Status.Conditions = []corev1.PodCondition{{Type: Admitted, Status: status, Message: text}}
	return p
}

// Every key of ours is fixed, or written by Berth, or by an agent while the pod runs. One that is new has to be decided
// about. Whether a workload is held, and whether its work is saved, may change at any time: that takes nothing from anybody.
func TestEveryKeyIsFixedOrGuarded(t *testing.T) {
	for _, key := range knownKeys() {
		if key == v1alpha1.KeyHold || key == v1alpha1.KeyCheckpointed {
			if slices.Contains(GuardedKeys(), key) || fixed[key] {
				t.Errorf("%s cannot be changed", key)
			}
			continue
		}
		if !slices.Contains(GuardedKeys(), key) {
			t.Errorf("who may edit %s on a pod that runs?", key)
		}
		if key != v1alpha1.KeySurge && key != v1alpha1.KeyEvictAt && key != v1alpha1.KeyWantedGPUs && key != v1alpha1.KeyGPUs && key != v1alpha1.KeyLease && key != v1alpha1.KeyTerms && key != v1alpha1.KeySeal && !fixed[key] {
			t.Errorf("%s is not fixed", key)
		}
	}
}

// What is decided can be read back, and a pod that is edited afterwards reads as it was decided about.
func TestRecordIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[ -~é世]{0,12}`)
		draw := func(label string) *corev1.Pod {
			p := keyed(map[string]string{}, map[string]string{"app": "x"})
			for _, key := range FixedKeys() {
				if rapid.Bool().Draw(t, label+key) {
					p.Annotations[key] = value.Draw(t, "annotation")
				}
				if rapid.Bool().Draw(t, label+key+" label") {
					p.Labels[key] = value.Draw(t, "label")
				}
			}
			return p
		}
		p, edited := draw("first "), draw("then ")
		r := Record{Queue: "q", Keys: FixedOf(p)}
		got, text, ok := RecordOf(with(edited, corev1.ConditionTrue, r.Text()), nil)
		if !ok || text != r.Text() || got.Queue != "q" {
			t.Fatalf("%q reads as %+v, %v", r.Text(), got, ok)
		}
		on := got.Keys.On(edited)
		if diff := cmp.Diff(FixedOf(p), FixedOf(on)); diff != "" {
			t.Fatal(diff)
		}
		if on.Labels["app"] != "x" || !got.Keys.Agrees(on) {
			t.Fatalf("labels %v", on.Labels)
		}
	})
}

// What is not a record of this version is none.
func TestWhatIsNoRecord(t *testing.T) {
	for name, c := range map[string]struct {
		status corev1.ConditionStatus
		text   string
	}{
		"taken back":         {corev1.ConditionFalse, Record{Queue: "q"}.Text()},
		"nothing":            {corev1.ConditionTrue, ""},
		"no JSON":            {corev1.ConditionTrue, "queue q"},
		"another version":    {corev1.ConditionTrue, `{"v":2,"queue":"q"}`},
		"no version":         {corev1.ConditionTrue, `{"queue":"q"}`},
		"an unknown field":   {corev1.ConditionTrue, `{"v":1,"queue":"q","more":1}`},
		"an unknown key":     {corev1.ConditionTrue, `{"v":1,"keys":{"example.com/x":"y"}}`},
		"a key of an agent":  {corev1.ConditionTrue, `{"v":1,"keys":{"berth.dev/idle-since":"y"}}`},
		"an empty value":     {corev1.ConditionTrue, `{"v":1,"keys":{"berth.dev/queue":""}}`},
		"something after it": {corev1.ConditionTrue, `{"v":1,"queue":"q"} x`},
		"a minimum below 0":  {corev1.ConditionTrue, `{"v":1,"group":{"min":-1}}`},
		"too long":           {corev1.ConditionTrue, `{"v":1,"queue":"` + strings.Repeat("q", mostRecord) + `"}`},
	} {
		if r, _, ok := RecordOf(with(keyed(nil, nil), c.status, c.text), nil); ok {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if _, _, ok := RecordOf(keyed(nil, nil), nil); ok {
		t.Error("a pod without conditions has a record")
	}
}

// As much as may be written down is taken, and no more; the record of it is short enough to be read back.
func TestKeysMayBeAsLongAsTheRecord(t *testing.T) {
	longest := mostKeys - len(v1alpha1.KeyGPUModel)
	for n, want := range map[int]bool{longest: true, longest + 1: false} {
		models := strings.Repeat(strings.Repeat("\x01", MaxNameBytes-1)+",", n/MaxNameBytes) + strings.Repeat("\x01", n%MaxNameBytes)
		p := keyed(map[string]string{v1alpha1.KeyGPUModel: models}, nil)
		if got := Pod(p, Options{SchedulerNames: []string{""}}).Invalid == ""; got != want {
			t.Errorf("%d bytes: taken %v", n, got)
		}
		if g := NativeGang([]*corev1.Pod{p}, nil, nil); (g.Invalid == "") != want {
			t.Errorf("%d bytes in a gang: %q", n, g.Invalid)
		}
		if _, _, ok := RecordOf(with(p, corev1.ConditionTrue, Record{Keys: FixedOf(p)}.Text()), nil); !ok && want {
			t.Errorf("%d bytes are not read back", n)
		}
	}
}

// What holds for a gang is decided for all its pods; what each says for itself stays its own.
func TestAGangIsDecidedTogether(t *testing.T) {
	got := Together([]*corev1.Pod{
		keyed(map[string]string{v1alpha1.KeyGang: "g", v1alpha1.KeySubgroup: "x", v1alpha1.KeyPreemptible: "surplus"}, nil),
		keyed(map[string]string{v1alpha1.KeyGang: "g", v1alpha1.KeySubgroup: "y", v1alpha1.KeyQueue: "q", v1alpha1.KeyMin: "2"}, nil),
		keyed(map[string]string{v1alpha1.KeyGang: "g", v1alpha1.KeySubgroup: "x", v1alpha1.KeyQueue: "r", v1alpha1.KeyMin: "3", v1alpha1.KeyGPUModel: "H100"}, nil),
	})
	want := []Keys{
		{v1alpha1.KeyGang: "g", v1alpha1.KeySubgroup: "x", v1alpha1.KeyPreemptible: "surplus", v1alpha1.KeyQueue: "q", v1alpha1.KeyMin: "3"},
		{v1alpha1.KeyGang: "g", v1alpha1.KeySubgroup: "y", v1alpha1.KeyQueue: "q", v1alpha1.KeyMin: "2"},
		{v1alpha1.KeyGang: "g", v1alpha1.KeySubgroup: "x", v1alpha1.KeyQueue: "q", v1alpha1.KeyMin: "3", v1alpha1.KeyGPUModel: "H100"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	joins := Keys{v1alpha1.KeyGang: "g", v1alpha1.KeySubgroup: "y", v1alpha1.KeyQueue: "z", v1alpha1.KeyPreemptible: "false", v1alpha1.KeyMin: "9", v1alpha1.KeyGPUModel: "A100"}
	if diff := cmp.Diff(Keys{v1alpha1.KeyGang: "g", v1alpha1.KeySubgroup: "y", v1alpha1.KeyQueue: "q", v1alpha1.KeyPreemptible: "surplus", v1alpha1.KeyMin: "2", v1alpha1.KeyGPUModel: "A100"}, joins.Joining(got[0], got[1])); diff != "" {
		t.Error(diff)
	}
}

// FuzzRecordOf never fails, and reads nothing that it would not write.
func FuzzRecordOf(f *testing.F) {
	f.Add(Record{Queue: "q", Keys: Keys{v1alpha1.KeyGang: "g"}, Core: true, Group: &GroupRecord{Min: 2, Topology: "rack"}}.Text())
	f.Add(`{"v":1,"keys":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		p := with(keyed(map[string]string{v1alpha1.KeyQueue: "x"}, nil), corev1.ConditionTrue, text)
		r, _, ok := RecordOf(p, nil)
		if !ok {
			return
		}
		on := r.Keys.On(p)
		if !r.Keys.Agrees(on) {
			t.Errorf("%q makes %v", text, on.Annotations)
		}
		if _, _, ok := RecordOf(with(p, corev1.ConditionTrue, r.Text()), nil); !ok && len(r.Text()) <= mostRecord {
			t.Errorf("%q is not read back", r.Text())
		}
		if r.Group != nil {
			PodGroup(r.Group.On(nil, "team", "g"))
		}
	})
}
