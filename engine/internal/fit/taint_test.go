package fit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTolerates(t *testing.T) {
	taint := Taint{"dedicated", "gpu", NoSchedule}
	for _, c := range []struct {
		toleration Toleration
		want       bool
	}{
		{Toleration{}, false},
		{Toleration{Op: "Exists"}, true},
		{Toleration{Op: "Exists", Effect: NoExecute}, false},
		{Toleration{Key: "dedicated", Op: "Exists"}, true},
		{Toleration{Key: "dedicated", Value: "gpu"}, true},
		{Toleration{Key: "dedicated", Op: "Equal", Value: "cpu"}, false},
		{Toleration{Key: "other", Op: "Exists"}, false},
		{Toleration{Key: "dedicated", Op: "Gt", Value: "1"}, false}, // gpu is no number
	} {
		if got := c.toleration.Tolerates(taint); got != c.want {
			t.Errorf("%+v: got %v, want %v", c.toleration, got, c.want)
		}
	}
}

func TestTaintsOfANode(t *testing.T) {
	taints := []Taint{
		{"a", "", NoSchedule}, {"b", "1", PreferNoSchedule}, {"c", "", NoExecute}, {"d", "", NoSchedule},
		{"e", "", PreferNoSchedule}, Unschedulable(),
	}
	tolerations := []Toleration{{Key: "d", Op: "Exists"}, {Key: "e", Op: "Exists", Effect: PreferNoSchedule}}
	first := Taint{"first", "", NoSchedule}
	want := []Taint{first, taints[0], taints[2], taints[5]}
	if diff := cmp.Diff(want, Untolerated(taints, tolerations, []Taint{first})); diff != "" {
		t.Errorf("untolerated (-want +got):\n%s", diff)
	}
	if got := Discouraging(taints, tolerations); got != 1 {
		t.Errorf("%d discourage, want 1", got)
	}
}

func TestTaintString(t *testing.T) {
	for want, taint := range map[string]Taint{
		"a=b:NoSchedule": {"a", "b", NoSchedule},
		"node.kubernetes.io/unschedulable:NoSchedule": Unschedulable(),
	} {
		if got := taint.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTaintCheck(t *testing.T) {
	for _, c := range []struct {
		taint Taint
		want  string
	}{
		{Unschedulable(), ""},
		{Taint{"", "", NoSchedule}, `taint ":NoSchedule": the key is not a label key`},
		{Taint{"a", "b c", NoSchedule}, `taint "a=b c:NoSchedule": the value is not a label value`},
		{Taint{"a", "", "Never"}, `taint "a:Never": unknown effect`},
	} {
		if got := message(c.taint.Check()); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestTolerationCheck(t *testing.T) {
	const named = `toleration {key "", operator "", value "", effect ""}: `
	if got, want := message(Toleration{}.Check()), named+"an empty key needs the operator Exists"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, c := range []struct {
		toleration Toleration
		complaint  string
	}{
		{Toleration{Op: "Exists"}, ""},
		{Toleration{Key: "a", Value: "b", Effect: NoExecute}, ""},
		{Toleration{Key: "a b", Op: "Exists"}, "the key is not a label key"},
		{Toleration{Op: "Exists", Value: "b"}, "Exists takes no value"},
		{Toleration{Key: "a", Value: "-"}, "the value is not a label value"},
		{Toleration{Key: "a", Effect: "Never"}, "unknown effect"},
		{Toleration{Key: "a", Op: "Lt", Value: "-1"}, ""},
		{Toleration{Key: "a", Op: "Gt", Value: "01"}, "the value is not a whole number"},
		{Toleration{Op: "Gt", Value: "1"}, "an empty key needs the operator Exists"},
		{Toleration{Key: "a", Op: "Like", Value: "1"}, "unknown operator"},
	} {
		got := message(c.toleration.Check())
		if (got == "") != (c.complaint == "") || !strings.HasSuffix(got, c.complaint) {
			t.Errorf("%+v: got %q, want %q", c.toleration, got, c.complaint)
		}
	}
}
