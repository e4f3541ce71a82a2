package kueue

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/dialecttest"
)

// What a Workload says between quota and admission, and after a check declined, in the words of Kueue v0.19.
func TestStatusWithChecks(t *testing.T) {
	at := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	const reserved = "{type: QuotaReserved, status: 'True'}"
	check := func(state string) string {
		return "admissionChecks: [{name: c, state: " + state + ", message: no, lastTransitionTime: '2026-11-18T11:59:00Z', requeueAfterSeconds: 120}]"
	}
	for name, c := range map[string]struct {
		spec, status string
		state        dialect.GroupState
		want         string
	}{
		"new":      {want: "QuotaReserved=False Pending; c=Pending"},
		"reserved": {state: dialect.GroupState{Reserved: true, Queue: "team"}, want: "QuotaReserved=True QuotaReserved, Admitted=False UnsatisfiedAdmissionChecks; c=Pending"},
		"reserved again": {
			status: "conditions: [{type: Evicted, status: 'True', message: x}]", state: dialect.GroupState{Reserved: true},
			want: "Evicted=False QuotaReserved, QuotaReserved=True QuotaReserved, Admitted=False UnsatisfiedAdmissionChecks; c=Pending",
		},
		"retry": {
			status: "conditions: [" + reserved + "], " + check("Retry"),
			want:   "QuotaReserved=False PendingEvaluation, Evicted=True AdmissionCheck, Requeued=False AdmissionCheck, Admitted=False NoReservation; c=Pending; requeueAt 2026-11-18T12:01:00Z",
		},
		"still to wait": {
			status: "requeueState: {requeueAt: '2026-11-18T12:01:00Z'}, conditions: [{type: Requeued, status: 'False', reason: AdmissionCheck}]",
			want:   "Requeued=False AdmissionCheck, QuotaReserved=False Pending; c=Pending; requeueAt 2026-11-18T12:01:00Z",
		},
		"waited": {
			status: "requeueState: {requeueAt: '2026-11-18T12:00:00Z'}, conditions: [{type: Requeued, status: 'False', reason: AdmissionCheck}]",
			want:   "Requeued=True BackoffFinished, QuotaReserved=False Pending; c=Pending",
		},
		"rejected": {
			spec: "active: false", status: "conditions: [" + reserved + "], " + check("Rejected"),
			want: "QuotaReserved=False PendingEvaluation, Evicted=True DeactivatedDueToAdmissionCheck, Requeued=False DeactivatedDueToAdmissionCheck, Admitted=False NoReservation; c=Pending",
		},
		"activated": {
			spec: "active: true", status: "conditions: [{type: Requeued, status: 'False', reason: DeactivatedDueToAdmissionCheck}]",
			want: "Requeued=True Reactivated, QuotaReserved=False Pending; c=Pending",
		},
		"before the first plan": {status: "conditions: [" + reserved + "], " + check("Ready"), want: "QuotaReserved=True ; c=Ready"},
		"lost": {
			status: "conditions: [" + reserved + "], " + check("Ready"), state: dialect.GroupState{Cause: string(why.OverQueueLimit)},
			want: "QuotaReserved=False WaitingForQuota, Evicted=True Preempted, Requeued=True Preempted, Admitted=False NoReservation, Preempted=True InClusterQueue; c=Pending",
		},
		"a check of another flavor": {status: "admissionChecks: [{name: other, state: Ready}]", want: "QuotaReserved=False Pending; c=Pending"},
	} {
		o := dialecttest.Object(t, "{kind: Workload, spec: {"+c.spec+"}, status: {"+c.status+"}}")
		c.state.Checks = []string{"c"}
		out := New().(dialect.Reporter).GroupStatus(o, c.state, at)
		if got := told(out); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
		if again := New().(dialect.Deactivator).GroupSpec(o); (again != nil) != (name == "rejected" && c.spec == "") {
			t.Errorf("%s: the spec becomes %v", name, again)
		}
	}
	if got := New().(dialect.Deactivator).GroupSpec(dialecttest.Object(t, "{spec: {active: true}, status: {"+check("Rejected")+"}}")); got["active"] != false {
		t.Errorf("a Workload that was rejected becomes %v", got)
	}
}

func told(status map[string]any) string {
	o := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	var out []string
	for _, c := range dialect.Items(o.Object, "status", "conditions") {
		out = append(out, dialect.Text(c, "type")+"="+dialect.Text(c, "status")+" "+dialect.Text(c, "reason"))
	}
	text := strings.Join(out, ", ")
	for _, c := range dialect.Items(o.Object, "status", "admissionChecks") {
		text += "; " + dialect.Text(c, "name") + "=" + dialect.Text(c, "state")
	}
	if t := dialect.Text(o.Object, "status", "requeueState", "requeueAt"); t != "" {
		text += "; requeueAt " + t
	}
	return text
}
