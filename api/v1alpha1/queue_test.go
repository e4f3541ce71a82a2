package v1alpha1_test

import (
	"os"
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
		{spec: `{namespaceSelector: {matchExpressions: [{key: team, operator: Exists}, {key: team, operator: NotIn, values: [ops]}]}}`},
		{spec: `{resources: [{name: nvidia.com/gpu, limit: -8}]}`, want: `spec.resources[0].limit: Invalid value: -8: must not be negative`},
		{spec: `{resources: [{name: nvidia.com/gpu, limit: "-0.5"}]}`, want: `spec.resources[0].limit: Invalid value: "-0.5": must not be negative`},
		{spec: `{resources: [{name: nvidia.com/gpu, limit: 500m}]}`, want: `spec.resources[0]: Invalid value: limit must be a whole number: nobody can have part of such a resource`},
		{spec: `{resources: [{name: nvidia.com/gpu, limit: many}]}`, want: `spec.resources[0].limit: Invalid value: "many": spec.resources[0].limit in body should match`},
		{spec: `{resources: [{name: nvidia.com/gpu}]}`, want: `spec.resources[0].limit: Required value`},
		{spec: `{resources: [{name: "no good", limit: 1}]}`, want: `spec.resources[0].name: Invalid value: "no good"`},
		{spec: `{resources: [{name: "", limit: 1}]}`, want: `spec.resources[0].name`},
		{spec: `{resources: [` + strings.Repeat(`{name: a, limit: 1},`, 9) + `]}`, want: `spec.resources: Too many: 9: must have at most 8 items`},
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

func TestQueueExample(t *testing.T) {
	data, err := os.ReadFile("../../examples/queue.yaml")
	if err != nil {
		t.Fatal(err)
	}
	validate, queues := serverValidation(t, v1alpha1.QueueCRD), 0
	for doc := range strings.SplitSeq(string(data), "\n---\n") {
		object := parse(t, doc)
		if object["kind"] != "Queue" {
			continue
		}
		queues++
		if errs := validate(object); len(errs) > 0 {
			t.Error(errs.ToAggregate())
		}
	}
	if queues == 0 {
		t.Error("no queue in the example")
	}
}

func queueOf(name, spec string) string {
	return "{apiVersion: berth.dev/v1alpha1, kind: Queue, metadata: {name: " + name + "}, spec: " + spec + "}"
}
