package workload

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// TestInvalid has each contradiction found, and nothing in objects without one.
func TestInvalid(t *testing.T) {
	job := func(spec, pod string) string {
		return "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {" + spec + " template: {spec: {" + pod + "}}}"
	}
	deployment := func(spec, pod string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {" + spec + " selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {" + pod + "}}}"
	}
	const c, never = "containers: [{name: a, image: x}]", "restartPolicy: Never, containers: [{name: a, image: x}]"
	for _, o := range []struct{ text, says string }{
		{job("", never), ""},
		{job("", c), "restartPolicy"},
		{job("", "restartPolicy: Always, "+c), "restartPolicy"},
		{job("completionMode: Indexed, ", never), ""},
		{job("completionMode: Indexed, parallelism: 2, ", never), "spec.completions"},
		{job("completionMode: Indexed, completions: 2, successPolicy: {rules: [{succeededCount: 1}]}, ", never), ""},
		{job("completions: 2, successPolicy: {rules: [{succeededCount: 1}]}, ", never), "spec.successPolicy"},
		{job("completionMode: Indexed, completions: 2, successPolicy: {rules: [{succeededCount: 3}]}, ", never), "succeededCount"},
		{job("podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]}, ", never), ""},
		{job("podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]}, ", "restartPolicy: OnFailure, "+c), "spec.podFailurePolicy"},
		{job("podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [0]}}]}, ", never), "values: 0"},
		{job("podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {containerName: b, operator: In, values: [1]}}]}, ", never), "no container is called b"},
		{job("podFailurePolicy: {rules: [{action: FailIndex, onPodConditions: [{type: DisruptionTarget}]}]}, ", never), "FailIndex"},
		{job("podFailurePolicy: {rules: [{action: Ignore}]}, ", never), "onExitCodes and onPodConditions"},
		{job("podReplacementPolicy: TerminatingOrFailed, podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}, ", never), "podReplacementPolicy"},
		{job("backoffLimitPerIndex: 1, ", never), "backoffLimitPerIndex"},
		{job("maxFailedIndexes: 1, ", never), "maxFailedIndexes"},
		{job("backoffLimit: -1, ", never), "backoffLimit"},
		{"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c}\nspec: {jobTemplate: {spec: {template: {spec: {" + never + "}}}}}", "spec.schedule"},
		{"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c}\nspec: {schedule: '* * * * *', jobTemplate: {spec: {template: {spec: {" + c + "}}}}}", "spec.jobTemplate.spec.template.spec.restartPolicy"},
		{deployment("", c), ""},
		{deployment("", never), "only Always"},
		{deployment("", "activeDeadlineSeconds: 5, "+c), "activeDeadlineSeconds"},
		{strings.Replace(deployment("", c), "{labels: {a: b}}", "{labels: {a: c}}", 1), "does not match"},
		{strings.Replace(deployment("", c), "selector: {matchLabels: {a: b}},", "", 1), "spec.selector"},
		{deployment("strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0}}, ", c), "maxUnavailable"},
		{deployment("strategy: {rollingUpdate: {maxSurge: 0%, maxUnavailable: 0}}, ", c), "maxUnavailable"},
		{deployment("strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}, ", c), ""},
		{deployment("strategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}, ", c), "Recreate"},
		{"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s}\nspec: {selector: {matchLabels: {a: b}}, volumeClaimTemplates: [{metadata: {name: d}}], template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: x, volumeMounts: [{name: d, mountPath: /d}]}]}}}", ""},
		{job("", "restartPolicy: Never, containers: [{name: a, image: x, volumeMounts: [{name: d, mountPath: /d}]}]"), "no volume is called d"},
		{job("", "restartPolicy: Never, containers: [{name: a, image: x}, {name: a, image: x}]"), "another container"},
		{job("", "restartPolicy: Never, containers: []"), "there are none"},
		{job("", "nodeName: n1, schedulingGates: [{name: a}], "+never), "schedulingGates"},
		{job("", "resources: {limits: {nvidia.com/gpu: 1}}, "+never), "by a pod as a whole"},
		{job("", "resources: {limits: {cpu: 1}}, "+never), ""},
		{job("", "restartPolicy: Never, containers: [{name: a, image: x, resources: {claims: [{name: gpu}]}}]"), "resource claim gpu"},
		{job("", "resourceClaims: [{name: gpu}], "+never), "resourceClaims[0]"},
		{job("", "tolerations: [{key: a, operator: Exists, value: b}], "+never), "has to be empty"},
		{job("", "tolerations: [{value: b}], "+never), "has to be Exists"},
		{job("", "tolerations: [{operator: Exists}], "+never), ""},
		{job("", "tolerations: [{key: a, operator: Exists, effect: NoSchedule, tolerationSeconds: 5}], "+never), "NoExecute"},
		{job("", "topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, minDomains: 2}], "+never), ""},
		{job("", "topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}], "+never), "minDomains"},
		{job("", "topologySpreadConstraints: [{topologyKey: a, whenUnsatisfiable: DoNotSchedule}], "+never), "maxSkew"},
		{job("", "topologySpreadConstraints: [{maxSkew: 1, topologyKey: a}], "+never), "whenUnsatisfiable"},
		{job("", "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}]}]}}}, "+never), "operator In"},
		{job("", "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {}}]}}, "+never), "topologyKey"},
	} {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(o.text), &object); err != nil {
			t.Fatalf("%v\n%s", err, o.text)
		}
		w, _, err := Of(object, Options{Namespace: "default", UID: func() types.UID { return "u" }})
		if err != nil {
			t.Fatalf("%v\n%s", err, o.text)
		}
		said := ""
		if f := Invalid(w.Object); f != nil {
			said = f.Message
			if fixed := strings.Contains(said, "estartPolicy") && !strings.Contains(said, "only Always"); fixed != (f.Edit != "") {
				t.Errorf("%q offers %q for\n%s", said, f.Edit, o.text)
			}
		}
		if (said == "") != (o.says == "") || !strings.Contains(said, o.says) {
			t.Errorf("%q is said of\n%s", said, o.text)
		}
	}
}
