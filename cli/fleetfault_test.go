package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// TestFaultFlags is what flags make of a fault.
func TestFaultFlags(t *testing.T) {
	xid, seed, labels := int32(79), int64(0), map[string]string{}
	for _, c := range []struct {
		kind    string
		options faultOptions
		want    v1alpha1.FaultSpec
		refused string
	}{
		{"xid", faultOptions{node: "a", xid: 79, gpus: []int{3}, lasts: time.Minute}, v1alpha1.FaultSpec{
			Type: "xid", Node: "a", Xid: &xid, GPUs: []int32{3}, For: &metav1.Duration{Duration: time.Minute},
		}, ""},
		{"registry-down", faultOptions{everywhere: true, hasSeed: true}, v1alpha1.FaultSpec{Type: "registry-down", Selector: &labels, Seed: &seed}, ""},
		{"quarantine", faultOptions{pool: "p", condition: "AcceleratedHardwareReady=False"}, v1alpha1.FaultSpec{
			Type: "quarantine", Pool: "p", Condition: &v1alpha1.FaultCondition{Type: "AcceleratedHardwareReady", Status: "False"},
		}, ""},
		{"quarantine", faultOptions{pool: "p", condition: "Bad"}, v1alpha1.FaultSpec{}, "want TYPE=True"},
		{"xid", faultOptions{xid: 79}, v1alpha1.FaultSpec{}, "say where"},
		{"lost", faultOptions{node: "a"}, v1alpha1.FaultSpec{}, "did you mean gpu-lost?"},
		{"ecc", faultOptions{node: "a", gpus: []int{-1}}, v1alpha1.FaultSpec{}, "no such index"},
	} {
		f, err := c.options.fault(c.kind)
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s %+v: %v", c.kind, c.options, err)
			}
			continue
		}
		if diff := cmp.Diff(c.want, f.Spec); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", c.kind, err, diff)
		}
	}
}

func TestFaultTable(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	xid := int32(48)
	since := metav1.NewTime(now.Add(-90 * time.Second))
	items := []v1alpha1.Fault{
		{ObjectMeta: metav1.ObjectMeta{Name: "xid-1"}, Spec: v1alpha1.FaultSpec{Type: "xid", Xid: &xid}, Status: v1alpha1.FaultStatus{
			Phase: v1alpha1.FaultActive, ActiveSince: &since, Times: 1, Hit: 3, Targets: []string{"a/0", "b/1"},
		}},
		{ObjectMeta: metav1.ObjectMeta{Name: "typo"}, Spec: v1alpha1.FaultSpec{Type: "node-down"}, Status: v1alpha1.FaultStatus{
			Phase: v1alpha1.FaultMissed, Times: 1, Message: `there is no node "x"`,
		}},
		{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Spec: v1alpha1.FaultSpec{Type: "ecc"}},
	}
	var out, errs bytes.Buffer
	if err := printFaults(Streams{Out: &out, Err: &errs}, items, "table", now); err != nil {
		t.Fatal(err)
	}
	const want = `NAME    TYPE        PHASE     SINCE    TIMES   HIT   TARGETS
xid-1   xid 48      Active    90s      1       3     a/0 b/1 ...
typo    node-down   Missed    <none>   1       0     there is no node "x"
new     ecc         Unknown   <none>   0       0     <none>
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	out.Reset()
	if err := printFaults(Streams{Out: &out, Err: &errs}, nil, "json", now); err != nil || !strings.Contains(out.String(), `"items": []`) {
		t.Errorf("%v %s", err, out.String())
	}
}

func TestOneLine(t *testing.T) {
	if got := oneLine(errors.New("a\n  b")).Error(); got != "a b" {
		t.Errorf("%q", got)
	}
}
