package v1alpha1_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// What the API server says to a queue. The bad ones are refused in words that name the field.
func TestQueueValidation(t *testing.T) {
	validate := serverValidation(t, v1alpha1.QueueCRD)
	for _, c := range []struct{ spec, want string }{
		{spec: `{}`},
		{spec: `{resources: [{name: nvidia.com/gpu, limit: 64}, {name: cpu, limit: 1500m}, {name: memory, limit: 2Ti}]}`},
		{spec: `{resources: [{name: nvidia.com/gpu, limit: 0}], namespaceSelector: {}}`},
		{spec: `{resources: [{name: nvidia.com/gpu, quota: 500m, limit: "1.5"}], countPartsBy: memory}`},
		{spec: `{countPartsBy: half}`, want: `spec.countPartsBy: Unsupported value: "half": supported values: "larger", "compute", "memory"`},
		{spec: `{namespaceSelector: {matchExpressions: [{key: team, operator: Exists}, {key: team, operator: NotIn, values: [ops]}]}}`},
		{spec: `{resources: [{name: nvidia.com/gpu, limit: -8}]}`, want: `spec.resources[0].limit: Invalid value: -8: must not be negative`},
		{spec: `{resources: [{name: nvidia.com/gpu, limit: "-0.5"}]}`, want: `spec.resources[0].limit: Invalid value: "-0.5": must not be negative`},
		{spec: `{resources: [{name: rdma/hca, limit: 500m}]}`, want: `spec.resources[0]: Invalid value: limit must be a whole number: nobody can have part of such a resource`},
		{spec: `{resources: [{name: nvidia.com/gpu, limit: many}]}`, want: `spec.resources[0].limit: Invalid value: "many": spec.resources[0].limit in body should match`},
		{spec: `{resources: [{name: nvidia.com/gpu}]}`, want: `spec.resources[0]: Invalid value: says nothing: want quota, limit or userLimit`},
		{spec: `{resources: [{name: nvidia.com/gpu, lend: 0}]}`, want: `says nothing: want quota, limit or userLimit`},
		{spec: `{resources: [{name: "no good", limit: 1}]}`, want: `spec.resources[0].name: Invalid value: "no good"`},
		{spec: `{resources: [{name: "", limit: 1}]}`, want: `spec.resources[0].name`},
		{spec: `{resources: [` + strings.Repeat(`{name: a, limit: 1},`, 17) + `]}`, want: `spec.resources: Too many: 17: must have at most 16 items`},
		{spec: `{resources: [{name: nvidia.com/gpu, limit: 8}, {name: nvidia.com/gpu, limit: 4}]}`, want: `spec.resources[1]: Duplicate value`},
		{spec: `{resources: [{name: nvidia.com/gpu, limit: 8}, {name: nvidia.com/gpu, gpuModel: H100, limit: 4}, {name: nvidia.com/gpu, gpuModel: A100, limit: 4}]}`},
		{spec: `{resources: [{name: nvidia.com/gpu, gpuModel: H100, limit: 8}, {name: nvidia.com/gpu, gpuModel: H100, limit: 4}]}`, want: `spec.resources[1]: Duplicate value`},
		{spec: `{resources: [{name: cpu, gpuModel: H100, limit: 4}]}`, want: `spec.resources[0]: Invalid value: gpuModel is for GPUs alone`},
		{spec: `{resources: [{name: nvidia.com/gpu, gpuModel: H100, quota: 4, lend: 2}]}`, want: `spec.resources[0]: Invalid value: lend is of a resource as a whole: limit the other queues' amounts of one model instead`},
		{spec: `{resources: [{name: nvidia.com/gpu, quota: 8, limit: 8, lend: 8, userLimit: 99}]}`},
		{spec: `{resources: [{name: nvidia.com/gpu, quota: 9, limit: 8}]}`, want: `spec.resources[0]: Invalid value: quota must not be above limit`},
		{spec: `{resources: [{name: memory, quota: 1025Mi, limit: 1Gi}]}`, want: `quota must not be above limit`},
		{spec: `{resources: [{name: nvidia.com/gpu, quota: 8, lend: 9}]}`, want: `spec.resources[0]: Invalid value: lend must not be above quota`},
		{spec: `{resources: [{name: nvidia.com/gpu, limit: 8, lend: 1}]}`, want: `lend must not be above quota`},
		{spec: `{resources: [{name: nvidia.com/gpu, quota: -1}]}`, want: `spec.resources[0].quota: Invalid value: -1: must not be negative`},
		{spec: `{resources: [{name: nvidia.com/gpu, quota: 8, lend: -1}]}`, want: `spec.resources[0].lend: Invalid value: -1: must not be negative`},
		{spec: `{resources: [{name: nvidia.com/gpu, userLimit: -1}]}`, want: `spec.resources[0].userLimit: Invalid value: -1: must not be negative`},
		{spec: `{resources: [{name: rdma/hca, quota: 500m}]}`, want: `quota must be a whole number`},
		{spec: `{resources: [{name: rdma/hca, quota: 8, lend: 500m}]}`, want: `lend must be a whole number`},
		{spec: `{resources: [{name: rdma/hca, userLimit: 500m}]}`, want: `userLimit must be a whole number`},
		{spec: `{parent: research, weight: 3, priority: -5, maxRunning: 4, fairUsers: true, minRunTime: 10m, warning: 30s, promoteAfter: 24h, reclaimIdleAfter: 1h30m, keepDisruptionBudgets: true}`},
		{spec: `{parent: q}`, want: `spec.parent: a queue is not below itself`},
		{spec: `{weight: 0}`, want: `spec.weight: Invalid value: 0: spec.weight in body should be greater than or equal to 1`},
		{spec: `{maxRunning: 0}`, want: `spec.maxRunning: Invalid value: 0`},
		{spec: `{minRunTime: -1m}`, want: `spec.minRunTime: Invalid value: "-1m"`},
		{spec: `{warning: soon}`, want: `spec.warning: Invalid value: "soon"`},
		{spec: `{budgets: [{hours: 100, period: 168h}, {resource: cpu, hours: "0.5", period: 24h, from: "2026-11-01T00:00:00Z"}]}`},
		{spec: `{budgets: [{hours: 100}]}`, want: `spec.budgets[0].period: Required value`},
		{spec: `{budgets: [{period: 24h}]}`, want: `spec.budgets[0].hours: Required value`},
		{spec: `{budgets: [{hours: -1, period: 24h}]}`, want: `spec.budgets[0].hours: Invalid value: -1: must not be negative`},
		{spec: `{budgets: [{hours: 1, period: 59s}]}`, want: `spec.budgets[0]: Invalid value: period must be a minute or more`},
		{spec: `{budgets: [{hours: 1, period: month}]}`, want: `spec.budgets[0].period: Invalid value: "month"`},
		{spec: `{bookings: [{name: exam, from: "2026-11-20T08:00:00Z", to: "2026-11-20T20:00:00+02:00", nodes: 4, nodeSelector: {rack: r1}}]}`},
		{spec: `{bookings: [{name: exam, from: "2026-11-20T18:00:00Z", to: "2026-11-20T20:00:00+02:00", nodes: 4}]}`, want: `spec.bookings[0]: Invalid value: to must be after from`},
		{spec: `{bookings: [{name: exam, from: "2026-11-20T08:00:00Z", to: "2026-11-21T08:00:00Z", nodes: 0}]}`, want: `spec.bookings[0].nodes: Invalid value: 0`},
		{spec: `{bookings: [{name: exam, from: "2026-11-20T08:00:00Z", nodes: 1}]}`, want: `spec.bookings[0].to: Required value`},
		{spec: `{bookings: [{name: a, from: "2026-11-20T08:00:00Z", to: "2026-11-21T08:00:00Z", nodes: 1}, {name: a, from: "2026-11-20T08:00:00Z", to: "2026-11-21T08:00:00Z", nodes: 2}]}`, want: `spec.bookings[1]: Duplicate value`},
		{spec: `{namespaceSelector: {matchExpressions: [{key: team, operator: Is}]}}`, want: `operator must be In, NotIn, Exists or DoesNotExist`},
		{spec: `{namespaceSelector: {matchExpressions: [{key: team, operator: In}]}}`, want: `In and NotIn need values, Exists and DoesNotExist have none`},
		{spec: `{namespaceSelector: {matchExpressions: [{key: team, operator: Exists, values: [a]}]}}`, want: `In and NotIn need values, Exists and DoesNotExist have none`},
	} {
		got := ""
		if errs := validate(parse(t, queueOf("q", c.spec))); len(errs) > 0 {
			got = errs.ToAggregate().Error()
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s\n got: %s\nwant: %s", c.spec, got, c.want)
		}
	}
}

func TestQueueName(t *testing.T) {
	validate := serverValidation(t, v1alpha1.QueueCRD)
	got := []int{len(validate(parse(t, queueOf(strings.Repeat("a", 63), "{}")))), len(validate(parse(t, queueOf(strings.Repeat("a", 64), "{}"))))}
	if diff := cmp.Diff([]int{0, 1}, got); diff != "" {
		t.Error(diff)
	}
}

func TestQueueExamples(t *testing.T) {
	paths, err := filepath.Glob("../../examples/queue*.yaml")
	if err != nil || len(paths) < 2 {
		t.Fatal(paths, err)
	}
	validate := serverValidation(t, v1alpha1.QueueCRD)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		queues := 0
		for doc := range strings.SplitSeq(string(data), "\n---\n") {
			object := parse(t, doc)
			if object["kind"] != "BerthQueue" {
				continue
			}
			queues++
			if errs := validate(object); len(errs) > 0 {
				t.Error(path, errs.ToAggregate())
			}
		}
		if queues == 0 {
			t.Errorf("no queue in %s", path)
		}
	}
}

func queueOf(name, spec string) string {
	return "{apiVersion: berth.dev/v1alpha1, kind: BerthQueue, metadata: {name: " + name + "}, spec: " + spec + "}"
}
