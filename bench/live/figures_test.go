package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestRates(t *testing.T) {
	start := time.Unix(1000, 0)
	after := func(s ...float64) (out []time.Time) {
		for _, x := range s {
			out = append(out, start.Add(time.Duration(x*float64(time.Second))))
		}
		return out
	}
	got := rates(start, after(2, 2.5, 5), 4)
	want := []figure{{figBound, 0.75}, {figRate, 0.6}, {figSteady, 2.0 / 3}, {figFirst, 2}, {figLast, 5}, {figPause, 2.5}}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]figure{{figBound, 0}}, rates(start, nil, 4)); diff != "" {
		t.Errorf("nothing bound: %s", diff)
	}
}

func TestPercentileIsANearestRank(t *testing.T) {
	var sorted []time.Duration
	for i := range 200 {
		sorted = append(sorted, time.Duration(i+1))
	}
	for percent, want := range map[int]time.Duration{50: 100, 99: 198, 100: 200} {
		if got := at(sorted, percent); got != want {
			t.Errorf("p%d of 1..200 is %d, want %d", percent, got, want)
		}
	}
	if got := at(sorted[:1], 50); got != 1 {
		t.Errorf("median of one is %d", got)
	}
}

func TestBarsJudgeMediansAndOnlyWhatWasMeasured(t *testing.T) {
	var results []result
	for round, rate := range []float64{300, 900, 800} {
		results = append(results,
			result{"pods5000", whoOurs, round, []figure{{figRate, rate}, {figWrites, 2.6}}},
			result{"pods5000", whoStock, round, []figure{{figRate, 200}}})
	}
	want := []bar{
		{what: "5,000 nodes, pods: rate beside stock", got: 4, want: 4},
		{what: "5,000 nodes, pods: writes per pod", got: 2.6, want: 2.5, most: true},
	}
	got := bars(medians(results))
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(bar{})); diff != "" {
		t.Fatal(diff)
	}
	if !got[0].met() || got[1].met() {
		t.Error("4 of at least 4 is met, 2.6 of at most 2.5 is missed")
	}
}

func TestTableLeavesOutWhatNobodyMeasured(t *testing.T) {
	list := []measurement{{name: "a", title: "First", who: []string{whoBare, whoOurs}}, {name: "b", title: "Second"}}
	var out bytes.Buffer
	printTable(&out, list, []result{
		{"a", whoBare, 0, []figure{{figRate, 1234.5}}},
		{"a", whoOurs, 0, []figure{{figRate, 99.96}, {figFirst, 0.123}}},
	})
	want := "\nFirst\n" +
		"                                        bare   ours\n" +
		"   pods/s, from the scheduler's start   1234   100.0\n" +
		"               first binding after, s           0.12\n"
	if diff := cmp.Diff(strings.Fields(want), strings.Fields(out.String())); diff != "" {
		t.Errorf("%s\n%s", diff, out.String())
	}
}

func TestOnlyNamesWhatThereIs(t *testing.T) {
	if _, err := parse([]string{"-scale", "2"}); err == nil {
		t.Error("a trial twice as large as the measurement was accepted")
	}
	for _, o := range []options{{only: "pods50"}, {who: "theirs"}} {
		if _, err := chosen(o); err == nil {
			t.Errorf("accepted %+v", o)
		}
	}
	list, err := chosen(options{only: "latency,pods5000", who: "ours,bare"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, m := range list {
		got[m.name] = m.who
	}
	if diff := cmp.Diff(map[string][]string{"latency": {whoOurs}, "pods5000": {whoBare, whoOurs}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestBareKeepsGangsTogetherAndLeavesBoundPodsAlone(t *testing.T) {
	pods, nodes := cache.NewStore(cache.MetaNamespaceKeyFunc), cache.NewStore(cache.MetaNamespaceKeyFunc)
	for i := range 2 {
		if err := nodes.Add(node(i)); err != nil {
			t.Fatal(err)
		}
	}
	bound := pod("bound", 1)
	bound.Spec.NodeName = nodeName(0)
	for _, p := range []*corev1.Pod{member("b", 0, 1), bound} {
		if err := pods.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	for i := range gangSize {
		if err := pods.Add(member("a", i, 1)); err != nil {
			t.Fatal(err)
		}
	}
	targets := map[string]string{}
	for _, b := range bindings(pods, nodes) {
		targets[b.Name] = b.Target.Name
	}
	want := map[string]string{"b-000": nodeName(1)}
	for i := range gangSize {
		want[member("a", i, 1).Name] = nodeName(0)
	}
	if diff := cmp.Diff(want, targets); diff != "" {
		t.Error(diff)
	}
}

func TestTold(t *testing.T) {
	p := member("g", 0, 8)
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "GangIncomplete"}}
	if podTold(p) {
		t.Error("a gang that still gathers was not told that it cannot run")
	}
	p.Status.Conditions[0].Reason = corev1.PodReasonUnschedulable
	if !podTold(p) {
		t.Error("not seen")
	}
	g := group("g", 8, "")
	if groupTold(g) {
		t.Error("nobody said anything")
	}
	g.Status.Conditions = []metav1.Condition{{Type: "PodGroupInitiallyScheduled", Status: metav1.ConditionFalse, Reason: "Unschedulable"}}
	if !groupTold(g) {
		t.Error("not seen")
	}
}
