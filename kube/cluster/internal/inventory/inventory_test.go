package inventory

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

var nodeNames = []string{"n0", "n1", "n2"}

func testNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}}
}

// byName means the devices with the name that is the expression; "any" means all. A device that is called "odd" cannot be evaluated.
func byName(expression, _ string, d *resourcev1.Device) (bool, error) {
	if d.Name == "odd" {
		return false, fmt.Errorf("%s is odd", d.Name)
	}
	return expression == "any" || d.Name == expression, nil
}

// world is what an inventory was told of, as it is now.
type world struct {
	slices map[string]*resourcev1.ResourceSlice
	taints map[string]*resourcev1.DeviceTaintRule
}

// fresh is an inventory that was told all of it once.
func (w *world) fresh(asked []convert.Asked) *Inventory {
	v := New(byName, nil, "nvidia.com/gpu")
	for _, name := range sorted(w.slices) {
		v.SetSlice(w.slices[name])
	}
	for _, name := range sorted(w.taints) {
		v.SetTaintRule(w.taints[name])
	}
	for i := range asked {
		v.Learn(&asked[i])
	}
	return v
}

// offers is what each node offers.
func offers(v *Inventory) map[string]*engine.Node {
	out := make(map[string]*engine.Node)
	for _, name := range nodeNames {
		n := &engine.Node{Name: name}
		v.Offer(n, testNode(name), nil, nil)
		out[name] = n
	}
	return out
}

func drawSlice(t *rapid.T) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: rapid.SampledFrom([]string{"s0", "s1", "s2", "s3"}).Draw(t, "slice")},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: rapid.SampledFrom([]string{"gpu.example", "nic.example"}).Draw(t, "driver"),
			Pool: resourcev1.ResourcePool{
				Name:       rapid.SampledFrom([]string{"p0", "p1"}).Draw(t, "pool"),
				Generation: rapid.Int64Range(-1, 2).Draw(t, "generation"), ResourceSliceCount: rapid.Int64Range(1, 2).Draw(t, "of"),
			},
		},
	}
	switch node := rapid.SampledFrom(append([]string{"all", "some"}, nodeNames...)).Draw(t, "node"); node {
	case "all":
		s.Spec.AllNodes = new(true)
	case "some":
		s.Spec.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n0", "n2"}}},
		}}}
	default:
		s.Spec.NodeName = &node
	}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "odd"}), 0, 3, rapid.ID).Draw(t, "devices") {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: name})
	}
	return s
}

func drawRule(t *rapid.T) *resourcev1.DeviceTaintRule {
	return &resourcev1.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: rapid.SampledFrom([]string{"t0", "t1"}).Draw(t, "rule")},
		Spec: resourcev1.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1.DeviceTaintSelector{Device: new(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tainted"))},
			Taint:          resourcev1.DeviceTaint{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoSchedule},
		},
	}
}

// What an inventory offers follows from what there is and what is asked, whatever came and went before; and of each node that offers something
// else than when the changes were last taken, Take tells.
func TestInventoryIsWhatThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{slices: make(map[string]*resourcev1.ResourceSlice), taints: make(map[string]*resourcev1.DeviceTaintRule)}
		v := New(byName, nil, "nvidia.com/gpu")
		var asked []convert.Asked
		was := offers(v)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				s := drawSlice(t)
				w.slices[s.Name] = s
				v.SetSlice(s)
			case 2:
				name := rapid.SampledFrom([]string{"s0", "s1", "s2", "s3"}).Draw(t, "gone")
				delete(w.slices, name)
				v.RemoveSlice(name)
			case 3:
				r := drawRule(t)
				w.taints[r.Name] = r
				v.SetTaintRule(r)
			case 4:
				name := rapid.SampledFrom([]string{"t0", "t1"}).Draw(t, "gone")
				delete(w.taints, name)
				v.RemoveTaintRule(name)
			case 5:
				expression := rapid.SampledFrom([]string{"a", "b", "any"}).Draw(t, "asked")
				a := convert.Asked{Selections: []convert.Selection{{Name: expression, Expressions: []string{expression}, All: expression == "any"}}}
				asked = append(asked, a)
				v.Learn(&a)
			}
			if rapid.Bool().Draw(t, "later") {
				continue
			}
			is, changed := offers(v), v.Take()
			if diff := cmp.Diff(offers(w.fresh(asked)), is); diff != "" {
				t.Fatalf("what nodes offer, of all that there is told at once (-) and one after the other (+):\n%s", diff)
			}
			for _, name := range nodeNames {
				if diff := cmp.Diff(was[name], is[name]); diff != "" && !changed.Read[name] && !changed.Far && !changed.Grown {
					t.Fatalf("nothing is told of %s, which offers something else:\n%s", name, diff)
				}
			}
			was = is
		}
	})
}

// When more is asked about than is kept, all of it is forgotten, and whoever asks is told to ask again.
func TestTooManySelectionsAreForgotten(t *testing.T) {
	v := New(byName, nil, "nvidia.com/gpu")
	learn := func(i int) {
		v.Learn(&convert.Asked{Selections: []convert.Selection{{Name: fmt.Sprint("s", i), Expressions: []string{"any"}}}})
	}
	for i := range MaxSelections {
		learn(i)
	}
	if v.Take().Forgotten {
		t.Fatal("forgotten before there were too many")
	}
	learn(MaxSelections)
	if !v.Take().Forgotten {
		t.Fatal("nobody is told that selections were forgotten")
	}
	if got, want := slices.Sorted(maps.Keys(v.selections)), []string{fmt.Sprint("s", MaxSelections)}; !slices.Equal(got, want) {
		t.Fatalf("left are %v, want %v", got, want)
	}
}
